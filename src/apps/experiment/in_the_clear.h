#pragma once

#include <string>

#include "apps/experiment/experiment_config.h"

namespace chorus::inline experiment {

/// What a configuration would tell the server about single clients although its aggregation is to hide it
/// (Aggregation::Traits::masked), as one sentence; "": nothing. Clients of such a run do not even state how many
/// examples they have.
std::string told_in_the_clear(const ExperimentConfig& config);

}  // namespace chorus::inline experiment
