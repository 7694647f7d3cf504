#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "application/data/readers/line_reader.h"

namespace chorus::inline readers {

/// Rows of a delimited file. With `quotes`, RFC 4180: a field in double quotes may hold delimiters, line breaks and
/// doubled quotes. Without, quotes are ordinary characters (GLUE). Blank lines are skipped. An unclosed quote is a
/// DataError with the line where it opened.
class RowReader {
 public:
  RowReader(const std::filesystem::path& path, char delimiter, bool quotes)
      : lines_(path), delimiter_(delimiter), quotes_(quotes) {}

  /// The next row; false at the end. The fields are valid until the next call.
  bool next(std::vector<std::string>& fields);
  /// "file:line" where the last row began.
  std::string where() const { return lines_.where(row_line_); }
  const LineReader& lines() const { return lines_; }

 private:
  LineReader lines_;
  char delimiter_;
  bool quotes_;
  std::uint64_t row_line_ = 0;
};

/// The formats "csv" and "tsv": columns by name (the header) or by number ("1", "2", ... without one); roles:
/// ColumnNames. A csv file whose first rows have no comma but agree about another delimiter (';', tab, '|') is read
/// with that one. In tsv, quotes are ordinary characters unless ReaderOptions::quotes is set. Without a header and
/// names, the layout of AG News is assumed: a class number, then text columns.

}  // namespace chorus::inline readers
