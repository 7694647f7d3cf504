#pragma once

#include <string>

#include "apps/experiment/experiment_config.h"

namespace chorus::inline experiment {

/// Why the parts of a configuration cannot work together, or "": an algorithm that looks at single updates under an
/// aggregation that hides them, one that needs an emulated clock in a run without, ... Traits declared with
/// each registration decide, so the error comes when the configuration is read.
std::string incompatibility(const ExperimentConfig& config);

}  // namespace chorus::inline experiment
