#include "application/data/readers/dataset_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "application/data/dataset_file.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/console/log.h"
#include "core/files/cache_folder.h"

namespace chorus::inline readers {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kWorthKeeping = 1 << 20;
constexpr std::int64_t kSettled = 2;  // seconds after which a change is visible in a file's times

/// The files behind a path: itself, those of a folder, or SOURCE,TARGET.
std::vector<fs::path> files_behind(const std::string& path) {
  std::error_code code;
  if (fs::is_directory(path, code)) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (!entry.is_directory()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  const std::size_t comma = path.find(',');
  if (comma == std::string::npos || fs::exists(path, code)) return {path};
  return {path.substr(0, comma), path.substr(comma + 1)};
}

/// Identifies the state of a file. Empty when it is not a regular file.
std::string state_of(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return {};
  return fmt::format("{}:{}:{}:{}.{}:{}.{}", status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

}  // namespace

DatasetCache::DatasetCache(const DataConfig& config, Files files) try {
  const fs::path folder = cache_folder(config.cache);
  if (folder.empty()) return;
  DataConfig options = config;
  options.cache = "none";
  std::string name = config_to_yaml(options);
  std::string key;
  std::uint64_t bytes = 0;
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (const auto& [split, path] : files) {
    for (const fs::path& file : files_behind(path)) {
      struct stat status {};
      if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
      if (status.st_mtim.tv_sec > now - kSettled) return;
      bytes += static_cast<std::uint64_t>(status.st_size);
      name += fmt::format("{}:{}\n", name_of(split), fs::absolute(file).string());
      key += state_of(status) + "\n";
    }
  }
  if (bytes < kWorthKeeping) return;
  struct stat program {};
  if (::stat("/proc/self/exe", &program) == 0) key += state_of(program);
  const Fingerprint place = fingerprint(name);
  key_ = fingerprint(key, place);
  file_ = folder / "datasets" / fmt::format("{}.dataset", place.hex());
} catch (const fs::filesystem_error&) {
  file_.clear();  // a folder that cannot be listed; reading it reports the error
}

std::optional<Dataset> DatasetCache::find() const {
  std::error_code ignored;
  if (file_.empty() || !fs::exists(file_, ignored)) return {};
  try {
    return DatasetFile::open(file_, key_);
  } catch (const Error& error) {
    Log("data").warning("{}; the data is read again", error.what());
    return {};
  }
}

void DatasetCache::keep(const Dataset& data) const {
  if (file_.empty()) return;
  try {
    fs::create_directories(file_.parent_path());
    fs::permissions(file_.parent_path(), fs::perms::owner_all);  // it holds the texts
    DatasetFile::write(file_, key_, data);
  } catch (const std::exception& error) {
    Log("data").info("the parsed data could not be cached: {}", error.what());
  }
}

}  // namespace chorus::inline readers
