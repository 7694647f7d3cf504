#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace chorus::inline console {

/// A text table. Columns are aligned by display width rather than bytes, so accents, CJK and emoji line up. Cells are
/// made printable (core/console/terminal.h): text from a file cannot move the cursor.
///
///     TextTable table({{"name"}, {"max error", TextTable::Align::kRight}});
///     table.add({"bert-tiny", fmt::format("{:.1e}", error)});
///     fmt::print("{}", table.render());
class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit TextTable(std::vector<Column> columns);

  /// Adds a row; missing trailing cells are empty, more cells than columns are a bug.
  void add(std::vector<std::string> cells);
  /// Draws a line before the next row.
  void add_rule();

  std::size_t rows() const { return rows_.size(); }

  /// The lines, each ending in '\n', without trailing spaces. A header with a rule below it appears when any column has
  /// a title. With `width` > 0 the last column is wrapped at spaces to fit when possible.
  std::string render(std::size_t width = 0) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool rule_before = false;
  };

  std::vector<Column> columns_;
  std::vector<Row> rows_;
  bool rule_pending_ = false;
};

/// Breaks the text at spaces into lines of at most `columns`; a longer word gets its own line.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns);

}  // namespace chorus::inline console
