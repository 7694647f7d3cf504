#pragma once

#include <string>

#include "apps/experiment/experiment_config.h"
#include "infrastructure/tracking/run_summary.h"

namespace chorus::inline experiment {

/// README.md of a model that a run has trained, as Hugging Face shows it: how it was trained, its scores, and what is
/// promised about the people whose texts it was trained on; nothing, where there is no differential privacy.
std::string model_card(const ExperimentConfig& config, const RunSummary& summary);

/// The name of an aggregation, and for a secure sum against which server it holds: "secagg_plus (active server)".
std::string aggregation_text(Choice<Aggregations> aggregation);

}  // namespace chorus::inline experiment
