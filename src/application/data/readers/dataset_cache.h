#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "application/data/dataset.h"
#include "application/data/readers/data_config.h"

namespace chorus::inline readers {

/// The cache of open_dataset(): one file for each set of files and options, keyed by the files' identities, sizes and
/// times, by the options and by the program itself (a new build may read differently). Data below 1 MiB is not cached,
/// nor are files written a moment ago, whose next change might not show in their times.
///
///     const DatasetCache cache(config, files);
///     if (auto data = cache.find()) return std::move(*data);
///     ...
///     cache.keep(data);
class DatasetCache {
 public:
  using Files = std::span<const std::pair<Split, std::string>>;

  DatasetCache(const DataConfig& config, Files files);

  /// nullopt when absent or out of date; also, with a warning, when damaged.
  std::optional<Dataset> find() const;
  /// A cache that cannot be written is logged and otherwise ignored.
  void keep(const Dataset& data) const;

  /// Empty when the data is not cached.
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  Fingerprint key_;
};

}  // namespace chorus::inline readers
