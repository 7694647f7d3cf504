#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace chorus::inline files {

/// A small file that another program replaces now and then. Not thread-safe.
///
///     WatchedFile file(path);
///     if (const auto text = file.news()) parse(*text);   // as often as one likes
class WatchedFile {
 public:
  explicit WatchedFile(std::filesystem::path path) : path_(std::move(path)) {}
  /// Its text, when it is another than at the last call. Looks twice per second, or `at_once`. A missing file has no
  /// news; one that cannot be read has none either, and the log says so.
  std::optional<std::string> news(bool at_once = false);

 private:
  std::filesystem::path path_;
  std::chrono::steady_clock::time_point looked_ = {};
  std::filesystem::file_time_type changed_ = {};
};

}  // namespace chorus::inline files
