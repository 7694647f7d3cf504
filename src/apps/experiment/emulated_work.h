#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "application/trainer/trainer_config.h"
#include "apps/experiment/client_networks.h"
#include "apps/experiment/task_model.h"
#include "infrastructure/emulation/cost_model.h"

namespace chorus::inline experiment {

/// What a client of this experiment computes per batch, in terms of a device profile. Depth is counted from the top
/// down to the lowest trainable layer (the backward pass goes through the layers in between as well).
EmulatedWork emulated_work(const TaskModel& model);

/// The same for clients with other networks, by the network's key.
std::map<std::string, EmulatedWork> emulated_work(std::span<const ClientNetwork> networks);

/// Batches per round of a client with this many examples.
double round_batches(const TrainerConfig& trainer, double examples);

/// Checks of `emulation` that are made before the run folder exists: the profile is known and has the entries that
/// the server's and the clients' networks need. Returns the number of clients asked per round.
std::size_t check_emulation(const TaskModel& model, std::span<const ClientNetwork> networks);

}  // namespace chorus::inline experiment
