#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "application/data/dataset.h"
#include "application/data/readers/reader_options.h"

namespace chorus::inline cli {

/// "text=title" sets the column of a role (`--column`). ConfigError for a role that does not exist.
void set_column(ColumnNames& names, const std::string& setting);

/// Options of the commands that read a dataset.
struct DataOptions {
  std::vector<std::string> paths;
  std::string format = "auto";
  std::string formulation = "auto";
  std::vector<std::string> columns;
  std::string header = "auto";
  std::string misaligned = "realign";
  std::int64_t limit = 0;
  bool strict = false;
  bool json = false;
  std::size_t labels = 12;
  std::size_t count = 5;
  std::uint64_t seed = 0;
};

/// The options that say how to read it.
void add_reading(CLI::App& command, DataOptions& options);

/// Reads it; without --strict, labels that only the test set has and misplaced answers are accepted.
Dataset load_data(const DataOptions& options);

}  // namespace chorus::inline cli
