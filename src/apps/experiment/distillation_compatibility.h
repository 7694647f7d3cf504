#pragma once

#include <string>

#include "apps/experiment/experiment_config.h"

namespace chorus::inline experiment {

/// `incompatibility` for what concerns learning from predictions: `public`, `clients.models` and methods that use them.
std::string distillation_mistake(const ExperimentConfig& config);

}  // namespace chorus::inline experiment
