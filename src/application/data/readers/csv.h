#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "application/data/readers/line_reader.h"

namespace chorus {

/// Rows of a file with a delimiter. With `quotes`, RFC 4180: a field in double quotes may hold delimiters, line breaks
/// and doubled quotes. Without, every byte counts (GLUE). Blank lines are passed over. A quote that is never closed is
/// a DataError with the line where it opened.
class RowReader {
 public:
  RowReader(const std::filesystem::path& path, char delimiter, bool quotes)
      : lines_(path), delimiter_(delimiter), quotes_(quotes) {}

  /// The next row; false at the end. The fields are valid until the next call.
  bool next(std::vector<std::string>& fields);
  /// "file:line" where the row given last began.
  std::string where() const { return lines_.where(row_line_); }
  const LineReader& lines() const { return lines_; }

 private:
  LineReader lines_;
  char delimiter_;
  bool quotes_;
  std::uint64_t row_line_ = 0;
};

/// The formats "csv" and "tsv": columns by name (the header) or by number ("1", "2", ... without one); which is what:
/// ColumnNames. In tsv, quotes are ordinary characters unless ReaderOptions::quotes says otherwise. Without a header
/// and without names, the layout of AG News and its kin is taken: a class number, then text columns.

}  // namespace chorus
