#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/experiment/experiment_config.h"

namespace chorus::inline experiment {

/// How many updates an aggregation is given at once: those of a round, of a part of the round's clients (adafl), or of
/// a buffer (fedbuff). More are asked for with emulation.over_selection.
struct UpdateGroup {
  std::size_t asked = 0, used = 0;
};

/// All sizes that occur when everybody replies; the smallest first.
std::vector<UpdateGroup> update_groups(const ExperimentConfig& config);

/// Clients whose updates change the model together: clients_per_round, or the buffer of an asynchronous algorithm.
std::int64_t updates_per_step(const ExperimentConfig& config);

/// Whether updates wait in a buffer until they are summed.
bool is_buffered(const ExperimentConfig& config);

/// Why the aggregation cannot combine groups of these sizes, as one sentence; "": it can.
std::string unfit_groups(const ExperimentConfig& config);

}  // namespace chorus::inline experiment
