#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/readers/byte_input.h"

namespace chorus::inline readers {

/// A streaming reader for large JSON files: enters objects and arrays and returns one value at a time as JSON text for
/// a full parser. Hand-written because nlohmann's streaming uses callbacks and keeps no location. DataError with
/// file:line for unexpected structure or a truncated file.
///
///     JsonStream json(path);
///     json.enter('{');
///     for (std::string key; json.next_key(key);) key == "data" ? use(json.value()) : json.skip();
class JsonStream {
 public:
  explicit JsonStream(const std::filesystem::path& path);

  /// The next byte after whitespace, 0 at the end of the file.
  char peek();
  /// Enters an object ('{') or array ('[').
  void enter(char bracket);
  /// The next key of the innermost object; at its end leaves it and returns false.
  bool next_key(std::string& key);
  /// Whether the innermost array has another element; at its end leaves it and returns false.
  bool next_element();
  /// The whole next value as valid UTF-8 JSON text, valid until the next call.
  std::string_view value();
  void skip();
  /// After the outermost value: DataError when anything but whitespace follows.
  void expect_end();

  /// "file:line" where the last key or value began.
  std::string where() const;
  const std::filesystem::path& path() const { return input_.path(); }
  std::uint64_t replaced() const { return replaced_; }

 private:
  bool fill();
  char take();
  bool next_item(char close);
  void scan(std::string* to);
  [[noreturn]] void fail(std::string_view what);

  ByteInput input_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool finished_ = false;
  std::vector<bool> fresh_;  // per open bracket: nothing read inside yet
  std::string value_;
  std::string cleaned_;
  std::uint64_t line_ = 1;
  std::uint64_t value_line_ = 1;
  std::uint64_t replaced_ = 0;
};

}  // namespace chorus::inline readers
