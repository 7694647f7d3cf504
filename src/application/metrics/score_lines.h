#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace chorus::inline metrics {

/// Reads a text file line by line, plain or gzipped (by content); files may be larger than memory. Removes "\n", "\r\n"
/// and a byte order mark. DataError for a missing or damaged file, a line that is not UTF-8, and a line above 1 GiB.
///
///     ScoreLines lines(path);
///     for (std::string line; lines.next(line);) parse(line, lines.place());
class ScoreLines {
 public:
  explicit ScoreLines(const std::string& path);
  ~ScoreLines();

  bool next(std::string& line);
  /// Gives the last line back: `next` returns it again.
  void put_back();
  /// Number of the last line, from 1.
  std::size_t number() const { return number_; }
  const std::string& path() const { return path_; }
  /// "file:line", for messages.
  std::string place() const;

 private:
  struct File;
  bool fill();

  std::string path_;
  std::unique_ptr<File> file_;
  std::string buffer_;
  std::size_t at_ = 0;    // first unread byte of buffer_
  std::size_t last_ = 0;  // where the last line began
  std::size_t number_ = 0;
  bool ended_ = false;
};

}  // namespace chorus::inline metrics
