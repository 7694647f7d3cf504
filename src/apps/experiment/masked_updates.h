#pragma once

#include <string>

#include "apps/experiment/experiment_config.h"

namespace chorus::inline experiment {

/// What would change masked updates on their way, needs single ones of them, or lets too many of them be missing
/// (Aggregation::Traits::masked), as one sentence; "": nothing.
std::string unmasked(const ExperimentConfig& config);

}  // namespace chorus::inline experiment
