#include "apps/experiment/client_half.h"

#include <algorithm>
#include <numeric>

#include "application/trainer/private_training.h"
#include "apps/experiment/changed_labels.h"
#include "apps/experiment/machine.h"
#include "apps/experiment/run_state.h"
#include "core/base/error.h"

namespace chorus::inline experiment {
namespace {

// Ledgers of clients.
constexpr const char* kLabels = "labels.ledger";
constexpr const char* kExamples = "examples.ledger";
constexpr const char* kLocal = "local.ledger";

}  // namespace

ClientHalf::ClientHalf(ClientHalfInput input)
    : input_(std::move(input)),
      labels_(hide_labels()),
      guard_(make_guard()),
      gate_(input_.model.filters(), FilterEnd::Side::kClient),
      local_(federation_input()) {
  const CompressionConfig& compression = input_.model.config().compression;
  if (const auto release = release_of(compression.up)) {
    if (input_.folder.empty()) throw ConfigError("compression.up: there is no folder for the ledger of local noise");
    std::filesystem::create_directories(input_.folder);
    charges_.emplace(LocalCharges::Input{
        local_, *release, 1e-5, {input_.folder / kLocal, ledger_mirror_folder(), mark_of(input_.ledgers, kLocal)}});
  }
}

std::map<std::string, std::string> ClientHalf::ledgers() const {
  std::map<std::string, std::string> marks;
  if (labels_) marks[kLabels] = labels_->mark();
  if (guard_) marks[kExamples] = guard_->mark();
  if (charges_) marks[kLocal] = charges_->mark();
  return marks;
}

std::unique_ptr<LabelGuard> ClientHalf::hide_labels() {
  const ExperimentConfig& config = input_.model.config();
  if (config.trainer.label_epsilon <= 0) return nullptr;
  if (input_.folder.empty()) throw ConfigError("trainer.label_epsilon: there is no folder for the ledger");
  std::filesystem::create_directories(input_.folder);
  ClientExamples& examples = input_.examples;
  LabelGuardInput guard{.epsilon = config.trainer.label_epsilon,
                        .labels = input_.model.task().labels().size(),
                        .folder = input_.folder,
                        .copies = ledger_mirror_folder(),
                        .clients = examples.ids,
                        .mark = mark_of(input_.ledgers, kLabels)};
  if (guard.clients.empty()) {
    guard.clients.resize(examples.train_lists.clients());
    std::iota(guard.clients.begin(), guard.clients.end(), ClientId{0});
  }
  auto labels = LabelGuards::make("randomized_response", guard);
  examples.train =
      with_changed_labels(input_.model.task(), examples.data, [&](std::int32_t own) { return labels->answer(own); });
  return labels;
}

std::unique_ptr<ExampleGuard> ClientHalf::make_guard() const {
  const TrainerConfig& trainer = input_.model.config().trainer;
  if (!trainer.privacy) return nullptr;
  if (input_.folder.empty()) throw ConfigError("trainer.privacy: there is no folder for the ledger of the budget");
  std::filesystem::create_directories(input_.folder);
  ExampleGuardInput guard{.config = *trainer.privacy, .folder = input_.folder};
  guard.rounds = static_cast<std::int64_t>(input_.rounds);
  guard.mark = mark_of(input_.ledgers, kExamples);
  const ClientExamples& examples = input_.examples;
  for (std::size_t c = 0; c < examples.train_lists.clients(); ++c) {
    const std::size_t count = examples.train_lists.size_of(c);
    const ClientId id = examples.ids.empty() ? static_cast<ClientId>(c) : examples.ids[c];
    if (count > 0) guard.work.push_back(private_work(trainer, id, count));
  }
  return ExampleGuards::make("secret", guard);
}

ClientPoolInput ClientHalf::pool_input(const ClientNetwork* network) const {
  const TaskModel& model = network == nullptr ? input_.model : *network->model;
  const ClientExamples& examples = input_.examples;
  ClientPoolInput pool{.trainer = {model.task(), model.model(), model.params(), input_.cache, nullptr, guard_.get()},
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
  const auto& names = input_.examples.names;
  const bool named = names.size() == federation.roster.size();
  if (named || !input_.network_of.empty()) {
    std::vector<RosterEntry> members(federation.roster.members().begin(), federation.roster.members().end());
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (named) members[i].name = names[i];
      const int network = input_.network_of.empty() ? -1 : input_.network_of[members[i].id];
      if (network >= 0) members[i].model = input_.networks[static_cast<std::size_t>(network)].key;
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
