#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/readers/reader_options.h"

namespace chorus::inline readers {

/// The beginning of a file, for guessing its format.
struct FileHead {
  std::filesystem::path path;
  std::string text;  ///< the first 64 KiB, decompressed; empty for a folder
  bool folder = false;

  /// Lower-case extension without ".gz": ".jsonl" for "Train.JSONL.gz".
  std::string extension() const;
  /// The complete lines of `text`, at most `count`.
  std::vector<std::string_view> lines(std::size_t count) const;
};

/// How certain a format is that a file belongs to it.
enum Likelihood : int { kNo = 0, kByName = 10, kByShape = 20, kByContent = 30, kCertain = 40 };

/// A data file format: one file pair in this folder and one registration.
struct Format {
  std::string name;
  std::string summary;  ///< one line for `chorus list reader`
  int (*likelihood)(const FileHead&) = nullptr;
  std::unique_ptr<RecordReader> (*open)(const std::filesystem::path&, const ReaderOptions&) = nullptr;
  std::string unavailable = {};  ///< why this build lacks it; empty: available
};

/// Registers a format before main() starts: `const FormatRegistration kRegistered{{"jsonl", "...", ...}};`
class FormatRegistration {
 public:
  explicit FormatRegistration(Format format);
};

/// All formats, sorted by name.
const std::vector<const Format*>& formats();
/// ConfigError with the known names, or with the reason why this build lacks it.
const Format& format_named(const std::string& name);
/// The most likely format of a file or folder; DataError when none fits.
const Format& guess_format(const std::filesystem::path& path);

/// Opens one file (or folder) with the named format, "auto" to guess it.
std::unique_ptr<RecordReader> open_reader(const std::filesystem::path& path, const std::string& format,
                                          const ReaderOptions& options);

}  // namespace chorus::inline readers
