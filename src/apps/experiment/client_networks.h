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

/// A network that some clients train instead of the server's (`clients.models`). If it has its own tokenizer, the data
/// is encoded again.
struct ClientNetwork {
  std::string key;  ///< RosterEntry::model
  std::unique_ptr<const TaskModel> model;
  std::shared_ptr<const EncodedDataset> train = {}, test = {};
  PublicSet public_set = {};
};

/// The index in `clients.models` of each client's network, or -1 for the server's. Explicit lists come first; the other
/// clients are assigned by the shares of the other networks, at random or by their number of examples. ConfigError for
/// a client that is listed twice or does not exist, for shares over 1, and for a share that gives a network no client.
std::vector<int> assign_networks(const ClientsConfig& config, std::span<const double> sizes, std::uint64_t seed);

/// The experiment's configuration with this network.
ExperimentConfig config_with(const ExperimentConfig& config, const ClientModelConfig& network);

}  // namespace chorus::inline experiment
