#include "apps/experiment/client_half.h"

#include "apps/experiment/machine.h"

namespace chorus::inline experiment {

ClientHalf::ClientHalf(ClientHalfInput input)
    : input_(std::move(input)),
      pool_(pool_input()),
      gate_(input_.model.filters(), FilterEnd::Side::kClient),
      local_(federation_input()) {}

ClientPoolInput ClientHalf::pool_input() const {
  const TaskModel& model = input_.model;
  const ClientExamples& examples = input_.examples;
  ClientPoolInput pool{.trainer = {model.task(), model.model(), model.params(), input_.cache},
                       .data = examples.data,
                       .train = examples.train};
  pool.config = model.config().trainer;
  pool.network = &model.network();
  pool.test = examples.test;
  pool.train_lists = &examples.train_lists;
  pool.test_lists = &examples.test_lists;
  pool.ids = examples.ids;
  pool.shared_test = examples.shared_test;
  pool.seed = model.seed();
  pool.rounds = input_.rounds;
  pool.states = input_.states;
  return pool;
}

LocalFederationInput ClientHalf::federation_input() const {
  const TaskModel& model = input_.model;
  const MachineShare share = machine_share(model.config(), model.device().is_cuda(), pool_.client_bytes());
  LocalFederationInput federation;
  federation.roster = pool_.roster();
  if (const auto& names = input_.examples.names; names.size() == federation.roster.size()) {
    std::vector<RosterEntry> members(federation.roster.members().begin(), federation.roster.members().end());
    for (std::size_t i = 0; i < members.size(); ++i) members[i].name = names[i];
    federation.roster = Roster(std::move(members));
  }
  if (model.config().compression.any()) federation.gate = &gate_;
  federation.open = [this](std::span<const ClientId> ids, const Request& request) {
    return pool_.open(ids, request.round, read_variant(request.body));
  };
  federation.cohort_batch = share.cohort_batch;
  federation.workers = share.workers;
  federation.threads = share.threads;
  federation.layout = model.layout();
  federation.stop = input_.stop;
  return federation;
}

}  // namespace chorus::inline experiment
