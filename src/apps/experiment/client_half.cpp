#include "apps/experiment/client_half.h"

#include <algorithm>

#include "apps/experiment/machine.h"

namespace chorus::inline experiment {

ClientHalf::ClientHalf(ClientHalfInput input)
    : input_(std::move(input)), gate_(input_.model.filters(), FilterEnd::Side::kClient), local_(federation_input()) {}

ClientPoolInput ClientHalf::pool_input(const ClientNetwork* network) const {
  const TaskModel& model = network == nullptr ? input_.model : *network->model;
  const ClientExamples& examples = input_.examples;
  ClientPoolInput pool{.trainer = {model.task(), model.model(), model.params(), input_.cache},
                       .data = examples.data,
                       .train = network == nullptr ? examples.train : network->train};
  pool.config = model.config().trainer;
  pool.network = &model.network();
  pool.test = network == nullptr ? examples.test : network->test;
  pool.train_lists = &examples.train_lists;
  pool.test_lists = &examples.test_lists;
  pool.ids = examples.ids;
  pool.shared_test = examples.shared_test;
  pool.public_set = network == nullptr ? examples.public_set : network->public_set;
  pool.seed = model.seed();
  pool.rounds = input_.rounds;
  pool.states = input_.states;
  return pool;
}

const ClientPool& ClientHalf::pool_of(ClientId client) const {
  if (input_.network_of.empty()) return *pools_[0];
  return *pools_[static_cast<std::size_t>(input_.network_of[client] + 1)];
}

LocalFederationInput ClientHalf::federation_input() {
  pools_.push_back(std::make_unique<ClientPool>(pool_input(nullptr)));
  for (const ClientNetwork& network : input_.networks) {
    pools_.push_back(std::make_unique<ClientPool>(pool_input(&network)));
  }
  const TaskModel& model = input_.model;
  double client_bytes = 0;
  for (const auto& pool : pools_) client_bytes = std::max(client_bytes, pool->client_bytes());
  const MachineShare share = machine_share(model.config(), model.device().is_cuda(), client_bytes);
  LocalFederationInput federation;
  federation.roster = pools_[0]->roster();
  if (!input_.network_of.empty()) {
    std::vector<RosterEntry> members(federation.roster.members().begin(), federation.roster.members().end());
    for (RosterEntry& member : members) {
      const int network = input_.network_of[member.id];
      if (network >= 0) member.model = input_.networks[static_cast<std::size_t>(network)].key;
    }
    federation.roster = Roster(std::move(members));
  }
  if (model.config().compression.any()) federation.gate = &gate_;
  federation.open = [this](std::span<const ClientId> ids, const Request& request) {
    return pool_of(ids[0]).open(ids, request.round, read_variant(request.body));
  };
  federation.cohort_batch = share.cohort_batch;
  federation.workers = share.workers;
  federation.threads = share.threads;
  if (input_.networks.empty()) federation.layout = model.layout();
  federation.stop = input_.stop;
  return federation;
}

}  // namespace chorus::inline experiment
