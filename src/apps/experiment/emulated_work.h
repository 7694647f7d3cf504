#pragma once

#include <cstddef>

#include "application/trainer/trainer_config.h"
#include "apps/experiment/task_model.h"
#include "infrastructure/emulation/cost_model.h"

namespace chorus::inline experiment {

/// What a client of this experiment computes for each batch, in the words of a device profile. Depth is counted from
/// the top: all layers down to the lowest that trains (those between them must be gone through as well).
EmulatedWork emulated_work(const TaskModel& model);

/// Batches that a client with so many examples reads in a round.
double round_batches(const TrainerConfig& trainer, double examples);

/// What can be told to be wrong with `emulation` before anything is written: a profile that is unknown or lacks what is
/// needed. Returns how many clients are asked in a round.
std::size_t check_emulation(const TaskModel& model);

}  // namespace chorus::inline experiment
