#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/readers/byte_input.h"
#include "application/data/record.h"

namespace chorus::inline readers {

/// Reads a text file line by line, without line ends ("\n" or "\r\n"), as valid UTF-8: a byte order mark is dropped,
/// invalid sequences become U+FFFD and are counted. UTF-16 and files with zero bytes (binary) are a DataError. Lines
/// may have up to 1 GiB; one is in memory at a time.
///
///     LineReader lines(path);
///     for (std::string_view line; lines.next(line);) use(line);
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);

  /// The next line, valid until the next call; false at the end.
  bool next(std::string_view& line);
  /// Number of the last line, from 1.
  std::uint64_t line() const { return line_; }
  std::string where() const { return where(line_); }
  std::string where(std::uint64_t line) const;
  const std::filesystem::path& path() const { return input_.path(); }
  /// Invalid UTF-8 sequences replaced so far.
  std::uint64_t replaced() const { return replaced_; }

 private:
  bool fill();
  std::string_view clean(std::string_view line);

  ByteInput input_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // the unread part of buffer_
  std::size_t end_ = 0;
  bool finished_ = false;
  std::string long_line_;  // a line that did not fit in one buffer
  std::string cleaned_;
  std::uint64_t line_ = 0;
  std::uint64_t replaced_ = 0;
};

/// The text with invalid UTF-8 replaced by U+FFFD; adds their number to `replaced`. `buffer` is used only when needed.
std::string_view clean_utf8(std::string_view text, std::string& buffer, std::uint64_t& replaced);

/// DataError when a file begins with the byte order mark of UTF-16 or UTF-32.
void refuse_wide_text(std::string_view head, const std::filesystem::path& path);

/// Base of all readers of lines.
class LineRecordReader : public RecordReader {
 public:
  explicit LineRecordReader(const std::filesystem::path& path) : lines_(path) {}
  std::string where() const override { return lines_.where(); }
  ReadReport report() const override;

 protected:
  LineReader lines_;
  ReadReport report_;
};

/// Adds the message about replaced bytes to ReadReport::notes.
void note_replaced(ReadReport& report, const std::filesystem::path& path, std::uint64_t replaced);

}  // namespace chorus::inline readers
