#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "application/trainer/client_pool.h"
#include "apps/experiment/experiment_config.h"
#include "apps/experiment/task_model.h"

namespace chorus::inline experiment {

/// A network that some clients train instead of the server's (`clients.models`): with its own tokenizer, everything is
/// encoded once more.
struct ClientNetwork {
  std::string key;  ///< RosterEntry::model
  std::unique_ptr<const TaskModel> model;
  std::shared_ptr<const EncodedDataset> train = {}, test = {};
  PublicSet public_set = {};
};

/// The index in `clients.models` of each client's network, or -1 for the server's. Lists come first; the other clients
/// are dealt out by the shares of the other networks, at random or by their number of examples. ConfigError for a
/// client that is listed twice or does not exist, and for shares over 1.
std::vector<int> assign_networks(const ClientsConfig& config, std::span<const double> sizes, std::uint64_t seed);

/// The configuration of an experiment whose network is this one.
ExperimentConfig config_with(const ExperimentConfig& config, const ClientModelConfig& network);

}  // namespace chorus::inline experiment
