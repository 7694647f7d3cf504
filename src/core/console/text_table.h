#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace chorus {

/// A table for people: columns aligned by what a terminal shows, not by bytes, so accents, CJK and emoji line up.
/// Cells are made printable (see core/console/terminal.h): text from a file cannot move the cursor.
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

  /// One row; missing cells at the end are empty, more cells than columns are a bug.
  void add(std::vector<std::string> cells);
  /// A line across, before the next row.
  void add_rule();

  std::size_t rows() const { return rows_.size(); }

  /// The lines, each ended by '\n', without blanks at their ends. A header line with a rule below it is printed when
  /// any column has a title. With `width` > 0 the last column is wrapped at blanks so that lines fit when possible.
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

/// Breaks the text at blanks into lines of at most `columns` (a longer word stands alone on its line).
std::vector<std::string> wrapped(const std::string& text, std::size_t columns);

}  // namespace chorus
