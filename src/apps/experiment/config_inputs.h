#pragma once

#include <string>
#include <vector>

#include "apps/experiment/experiment_config.h"

namespace chorus::inline experiment {

/// What a valid configuration names that does not exist, one sentence each: data, model, tokenizer, partition and
/// profile files, settings of a new network, and scores that the task does not have. No data is read.
std::vector<std::string> missing_inputs(const ExperimentConfig& config);

}  // namespace chorus::inline experiment
