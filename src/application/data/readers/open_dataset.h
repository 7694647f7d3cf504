#pragma once

#include <string>
#include <vector>

#include "application/data/dataset.h"
#include "application/data/readers/data_config.h"

namespace chorus::inline readers {

/// Reads everything into memory once, streaming; large data that was read before is mapped from the cache instead
/// (dataset_cache.h). ConfigError for a wrong setting, DataError for a wrong file. What was skipped, replaced or moved
/// is in Dataset::report() and logged as a warning.
///
///     const Dataset data = open_dataset({.train = {"train.csv"}, .test = {"test.csv"}});
Dataset open_dataset(const DataConfig& config);

/// The splits of files on a command line, from their names: train*, dev* and val*, test*; other files are training
/// data. A folder means its data files (those named after a split if there are any).
DataConfig config_of_paths(const std::vector<std::string>& paths);

}  // namespace chorus::inline readers
