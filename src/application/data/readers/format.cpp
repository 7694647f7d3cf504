#include "application/data/readers/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "application/data/readers/byte_input.h"
#include "core/base/error.h"
#include "core/config/registry.h"

namespace chorus::inline readers {
namespace {

std::vector<std::unique_ptr<Format>>& store() {
  static std::vector<std::unique_ptr<Format>> all;
  return all;
}

#ifdef CHORUS_NO_HDF5
const FormatRegistration kNoHdf5{
    {"fednlp", "FedNLP's HDF5 data file (NAME_data.h5)",
     [](const FileHead& head) -> int { return head.text.starts_with("\x89HDF\r\n") ? kCertain : kNo; }, nullptr,
     "this build has no HDF5; install libhdf5-dev and configure again"}};
#endif

}  // namespace

std::string FileHead::extension() const {
  std::filesystem::path name = path.filename();
  const auto lower = [](std::string word) {
    std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
    return word;
  };
  if (lower(name.extension().string()) == ".gz") name = name.stem();
  return lower(name.extension().string());
}

std::vector<std::string_view> FileHead::lines(std::size_t count) const {
  std::vector<std::string_view> found;
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  while (found.size() < count && !rest.empty()) {
    const std::size_t end = rest.find('\n');
    // An incomplete last line counts only when the whole file was read.
    if (end == std::string_view::npos && text.size() >= 65536) break;
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    found.push_back(line);
  }
  return found;
}

FormatRegistration::FormatRegistration(Format format) {
  NameRegistration({.kind = "reader",
                    .name = format.name,
                    .summary = format.summary,
                    .unavailable = format.unavailable,
                    .make_config = [] { return std::make_unique<ConfigOf<NoConfig>>(); }});
  store().push_back(std::make_unique<Format>(std::move(format)));
}

const std::vector<const Format*>& formats() {
  static const std::vector<const Format*> sorted = [] {
    std::vector<const Format*> all;
    for (const auto& format : store()) all.push_back(format.get());
    std::sort(all.begin(), all.end(), [](const Format* a, const Format* b) { return a->name < b->name; });
    return all;
  }();
  return sorted;
}

const Format& format_named(const std::string& name) {
  std::string names;
  for (const Format* format : formats()) {
    if (format->name == name) {
      if (!format->unavailable.empty()) {
        throw ConfigError(fmt::format("the format '{}' is not available: {}", name, format->unavailable));
      }
      return *format;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", format->name);
  }
  throw ConfigError(fmt::format("unknown format '{}'; the formats are {} (or auto)", name, names));
}

const Format& guess_format(const std::filesystem::path& path) {
  FileHead head{.path = path, .text = file_head(path), .folder = std::filesystem::is_directory(path)};
  if (!head.folder && head.text.empty()) throw DataError(fmt::format("{}: is empty", path.string()));
  const Format* best = nullptr;
  int likelihood = kNo;
  for (const Format* format : formats()) {
    const int value = format->likelihood(head);
    if (value > likelihood) {
      best = format;
      likelihood = value;
    }
  }
  if (best == nullptr) {
    throw DataError(fmt::format("{}: unknown format; set it ('chorus list reader' shows the formats)", path.string()));
  }
  return format_named(best->name);
}

std::unique_ptr<RecordReader> open_reader(const std::filesystem::path& path, const std::string& format,
                                          const ReaderOptions& options) {
  return (format == "auto" ? guess_format(path) : format_named(format)).open(path, options);
}

}  // namespace chorus::inline readers
