#pragma once

#include <string>
#include <vector>

#include "application/data/dataset.h"
#include "application/data/readers/data_config.h"

namespace chorus {

/// Reads everything into memory once, streaming; large data that was read before is mapped from the cache instead
/// (dataset_cache.h). ConfigError for a wrong setting, DataError for a wrong file. What was
/// left out, replaced or moved is told in Dataset::report(), and logged as a warning.
///
///     const Dataset data = open_dataset({.train = {"train.csv"}, .test = {"test.csv"}});
Dataset open_dataset(const DataConfig& config);

/// The splits of files named on a command line, told by their names: train*, dev* and val*, test*; a folder stands for
/// its data files (those named by a split if there are any). A file that names none is training data.
DataConfig config_of_paths(const std::vector<std::string>& paths);

}  // namespace chorus
