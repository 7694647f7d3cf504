#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "application/data/readers/data_config.h"

namespace chorus::inline experiment {

/// What a person has before the first configuration.
struct FirstConfigInput {
  std::vector<std::string> paths;  ///< data files or folders
  DataConfig data{};               ///< columns, format and so on that the person named
  std::string task{};              ///< empty: from the data
  std::string model{};             ///< a Hugging Face folder
  std::string name{};              ///< of the experiment
  std::string file{};              ///< that is written, for its first line; empty: NAME.yaml
};

/// A configuration, and what to say about it.
struct FirstConfig {
  std::string yaml;                ///< with comments: what was found in the data, and why each value is there
  std::vector<std::string> notes;  ///< what a person should check
};

/// Looks at the data and writes a configuration that `chorus run` accepts: task, columns, labels, lengths in tokens,
/// clients, batch size and learning rate. DataError as for reading the data.
///
///     write_file("tickets.yaml", first_config({.paths = {"tickets.csv"}, .model = "models/chorus-mini"}).yaml);
FirstConfig first_config(const FirstConfigInput& input);

}  // namespace chorus::inline experiment
