#pragma once

#include <cstdint>
#include <string>

#include "apps/experiment/experiment_config.h"

namespace chorus::inline experiment {

/// Why the parts of a configuration cannot work together, or "": an algorithm that reads individual updates under an
/// aggregation that hides them, one that needs an emulated clock in a run without it, ... The traits declared with each
/// registration decide, so the error appears when the configuration is read.
std::string incompatibility(const ExperimentConfig& config);

/// Clients whose updates change the model together: clients_per_round, or the buffer of an asynchronous algorithm.
std::int64_t updates_per_step(const ExperimentConfig& config);

}  // namespace chorus::inline experiment
