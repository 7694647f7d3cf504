#include "application/data/readers/guess_columns.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "application/data/readers/byte_input.h"
#include "application/data/readers/csv.h"

namespace chorus::inline readers {
namespace {

constexpr std::size_t kMostRows = 2000;

/// The delimiter that the first line has most of; 0: none.
char likely_delimiter(const std::filesystem::path& path) {
  const std::string head = file_head(path, 4096);
  const std::string_view line = std::string_view(head).substr(0, head.find('\n'));
  char best = 0;
  std::ptrdiff_t most = 0;
  for (const char candidate : {',', ';', '\t', '|'}) {
    const auto count = std::count(line.begin(), line.end(), candidate);
    if (count > most) {
      most = count;
      best = candidate;
    }
  }
  return best;
}

struct ColumnFacts {
  std::string name;
  std::set<std::string> values;
  double words = 0;  // sum
};

double words_of(const std::string& text) { return 1 + static_cast<double>(std::count(text.begin(), text.end(), ' ')); }

}  // namespace

std::optional<GuessedColumns> guess_columns(const std::filesystem::path& path) {
  const char delimiter = likely_delimiter(path);
  if (delimiter == 0) return std::nullopt;
  RowReader rows(path, delimiter, true);
  std::vector<std::string> fields;
  if (!rows.next(fields)) return std::nullopt;
  std::vector<ColumnFacts> columns;
  for (const std::string& name : fields) columns.push_back({name, {}});
  std::size_t count = 0;
  while (count < kMostRows && rows.next(fields)) {
    if (fields.size() != columns.size()) return std::nullopt;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      columns[i].words += words_of(fields[i]);
      columns[i].values.insert(fields[i]);
    }
    ++count;
  }
  if (count < 4 || columns.size() < 2) return std::nullopt;
  const auto text = std::max_element(columns.begin(), columns.end(),
                                     [](const ColumnFacts& a, const ColumnFacts& b) { return a.words < b.words; });
  if (text->words < 2 * static_cast<double>(count)) return std::nullopt;  // no column has sentences
  const std::size_t most_labels = std::clamp<std::size_t>(count / 3, 2, 200);
  const ColumnFacts* label = nullptr;
  for (const ColumnFacts& column : columns) {
    if (&column == &*text || column.values.size() < 2 || column.values.size() > most_labels) continue;
    if (label == nullptr || column.values.size() < label->values.size()) label = &column;
  }
  if (label == nullptr) return std::nullopt;
  GuessedColumns guess{.text = text->name, .label = label->name, .labels = label->values.size(), .rows = count};
  for (const ColumnFacts& column : columns) {
    if (&column == &*text || &column == label) continue;
    if (column.values.size() <= label->values.size() || column.values.size() > count / 3) continue;
    guess.client = column.name;
    guess.clients = column.values.size();
  }
  return guess;
}

}  // namespace chorus::inline readers
