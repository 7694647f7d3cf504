#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "application/data/dataset.h"
#include "application/data/readers/data_config.h"

namespace chorus {

/// What open_dataset() read before, in a file of the cache: one for each set of files and options, keyed by the files'
/// identities, sizes and times, by the options, and by the program itself (a new build may read otherwise). Small data
/// (below 1 MiB) and files that were written a moment ago, whose next change the times might not show, are not kept.
///
///     const DatasetCache cache(config, files);
///     if (auto data = cache.find()) return std::move(*data);
///     ...
///     cache.keep(data);
class DatasetCache {
 public:
  using Files = std::span<const std::pair<Split, std::string>>;

  DatasetCache(const DataConfig& config, Files files);

  /// Nothing when it is not there or out of date; also, with a warning, when it is damaged.
  std::optional<Dataset> find() const;
  /// Where the cache cannot be written this is noted in the log, and nothing else happens.
  void keep(const Dataset& data) const;

  /// Empty when the data is not kept.
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  Fingerprint key_;
};

}  // namespace chorus
