#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/readers/reader_options.h"

namespace chorus {

/// What can be seen of a file without reading it all.
struct FileHead {
  std::filesystem::path path;
  std::string text;  ///< the first 64 KiB, unpacked; empty for a folder
  bool folder = false;

  /// Lower-case extension without ".gz": ".jsonl" for "Train.JSONL.gz".
  std::string extension() const;
  /// The complete lines of `text`, at most `count`.
  std::vector<std::string_view> lines(std::size_t count) const;
};

/// How sure a format is that a file is of its kind.
enum Likelihood : int { kNo = 0, kByName = 10, kByShape = 20, kByContent = 30, kCertain = 40 };

/// A format of data files: one pair of files in this folder and one registration line.
struct Format {
  std::string name;
  std::string summary;  ///< one line for `chorus list reader`
  int (*likelihood)(const FileHead&) = nullptr;
  std::unique_ptr<RecordReader> (*open)(const std::filesystem::path&, const ReaderOptions&) = nullptr;
  std::string unavailable = {};  ///< why this build cannot read it; empty: it can
};

/// Makes a format known before main() starts: `const FormatRegistration kRegistered{{"jsonl", "...", ...}};`
class FormatRegistration {
 public:
  explicit FormatRegistration(Format format);
};

/// All formats in the order of their names.
const std::vector<const Format*>& formats();
/// ConfigError that lists the names when there is none of that name, or says why this build lacks it.
const Format& format_named(const std::string& name);
/// The likeliest format of a file or folder; DataError when none fits.
const Format& guess_format(const std::filesystem::path& path);

/// Opens one file (or folder) with the named format, "auto" to guess it.
std::unique_ptr<RecordReader> open_reader(const std::filesystem::path& path, const std::string& format,
                                          const ReaderOptions& options);

}  // namespace chorus
