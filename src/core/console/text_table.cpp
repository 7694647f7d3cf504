#include "core/console/text_table.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/console/terminal.h"

namespace chorus::inline console {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowestWrap = 24;

void append_repeated(std::string& line, std::string_view text, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) line += text;
}

void finish_line(std::string& text, std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  text += line;
  text += '\n';
}

}  // namespace

std::vector<std::string> wrapped(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  std::size_t used = 0;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    if (end > start) {
      const std::string word = text.substr(start, end - start);
      const std::size_t width = display_width(word);
      if (!line.empty() && used + 1 + width > columns) {
        lines.push_back(std::exchange(line, ""));
        used = 0;
      }
      if (!line.empty()) {
        line += ' ';
        ++used;
      }
      line += word;
      used += width;
    }
    start = end + 1;
  }
  if (!line.empty() || lines.empty()) lines.push_back(line);
  return lines;
}

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  check(!columns_.empty(), "a table needs columns");
}

void TextTable::add(std::vector<std::string> cells) {
  check(cells.size() <= columns_.size(), "a table row has more cells than the table has columns");
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back({std::move(cells), std::exchange(rule_pending_, false)});
}

void TextTable::add_rule() { rule_pending_ = true; }

std::string TextTable::render(std::size_t width) const {
  const std::size_t count = columns_.size();
  std::vector<std::size_t> widths(count);
  bool has_titles = false;
  for (std::size_t c = 0; c < count; ++c) {
    widths[c] = display_width(columns_[c].title);
    has_titles = has_titles || !columns_[c].title.empty();
    for (const Row& row : rows_) widths[c] = std::max(widths[c], display_width(row.cells[c]));
  }
  std::size_t before_last = 0;
  for (std::size_t c = 0; c + 1 < count; ++c) before_last += widths[c] + kGap;
  bool wrap = false;
  if (width > 0 && before_last + widths[count - 1] > width) {
    const std::size_t room = std::max(kNarrowestWrap, width > before_last ? width - before_last : 0);
    wrap = room < widths[count - 1];
    widths[count - 1] = std::min(widths[count - 1], room);
  }

  std::string text;
  const auto put = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t c = 0; c < count; ++c) {
      const std::size_t used = std::min(display_width(cells[c]), widths[c]);
      if (columns_[c].align == Align::kRight) line.append(widths[c] - used, ' ');
      line += cells[c];
      if (columns_[c].align == Align::kLeft) line.append(widths[c] - used, ' ');
      if (c + 1 < count) line.append(kGap, ' ');
    }
    finish_line(text, std::move(line));
  };
  const auto rule = [&] {
    std::string line;
    for (std::size_t c = 0; c < count; ++c) {
      append_repeated(line, "─", widths[c]);
      if (c + 1 < count) line.append(kGap, ' ');
    }
    finish_line(text, std::move(line));
  };

  if (has_titles) {
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(printable(column.title));
    put(titles);
    rule();
  }
  for (const Row& row : rows_) {
    if (row.rule_before) rule();
    if (!wrap) {
      put(row.cells);
      continue;
    }
    std::vector<std::string> cells = row.cells;
    for (const std::string& line : wrapped(row.cells.back(), widths[count - 1])) {
      cells.back() = line;
      put(cells);
      std::fill(cells.begin(), cells.end(), "");
    }
  }
  return text;
}

}  // namespace chorus::inline console
