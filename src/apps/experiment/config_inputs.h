#pragma once

#include <string>
#include <vector>

#include "apps/experiment/experiment_config.h"

namespace chorus::inline experiment {

/// Inputs that a valid configuration names but that do not exist, one sentence each: data, model, tokenizer, partition
/// and profile files, settings of a new network, and scores that the task does not have. Reads no data.
std::vector<std::string> missing_inputs(const ExperimentConfig& config);

}  // namespace chorus::inline experiment
