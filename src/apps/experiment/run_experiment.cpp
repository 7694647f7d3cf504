#include "apps/experiment/run_experiment.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "algorithm/distillation/own_models.h"
#include "algorithm/federated/rank_sums.h"
#include "application/trainer/split_training.h"
#include "apps/experiment/canary_exposure.h"
#include "apps/experiment/client_file.h"
#include "apps/experiment/client_half.h"
#include "apps/experiment/emulated_work.h"
#include "apps/experiment/experiment.h"
#include "apps/experiment/machine.h"
#include "apps/experiment/model_card.h"
#include "apps/experiment/run_checkpoints.h"
#include "apps/experiment/run_journal.h"
#include "apps/experiment/server_half.h"
#include "apps/experiment/simulated_link.h"
#include "apps/experiment/watched_federation.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/console/log.h"
#include "core/device/tf32.h"
#include "core/device/torch_runtime.h"
#include "core/files/files.h"
#include "infrastructure/tracking/run_folder.h"
#include "infrastructure/tracking/transfer.h"

namespace chorus::inline experiment {
namespace {

using Moment = std::chrono::steady_clock::time_point;

constexpr const char* kClientModels = "client_models";

double seconds_since(Moment begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TestSet server_test(const Experiment& experiment) {
  return {experiment.data(), experiment.test(), experiment.shared_test()};
}

std::optional<ServerPublic> server_public(const Experiment& experiment) {
  const PublicData* shared = experiment.public_data();
  if (shared == nullptr) return std::nullopt;
  return ServerPublic{shared->query_data(), shared->queries_for(experiment.task_model(), experiment.train()),
                      shared->set_for(experiment.task_model(), experiment.train())};
}

/// Whether any process of an MPI job may train any client, so that a cohort can be divided evenly and summed where it
/// trains. Clients that remember something, for a run or a session, stay where they are.
bool shares_clients(const ExperimentConfig& config) {
  return config.algorithm.traits().stateless && config.aggregation.name() == "mean" && !config.compression.any() &&
         !config.trainer.privacy && !config.evaluation.personal;
}

/// Those of the clients that process `rank` of `size` hosts: all, or every size-th one.
ClientExamples client_examples(const Experiment& experiment, const Phase& phase, Transport::Place place) {
  ClientExamples examples{.data = experiment.data(), .train = experiment.train()};
  examples.test = experiment.test();
  examples.shared_test = experiment.shared_test();
  if (!experiment.config().algorithm.traits().pooled) examples.names = experiment.partition().client_names;
  if (const PublicData* shared = experiment.public_data()) {
    examples.public_set = shared->set_for(experiment.task_model(), experiment.train());
  }
  if (place.size == 1 || shares_clients(experiment.config())) {
    examples.train_lists = phase.train;
    examples.test_lists = experiment.client_tests();
    return examples;
  }
  const auto all = static_cast<ClientId>(phase.train.clients());
  for (auto id = static_cast<ClientId>(place.rank); id < all; id += static_cast<ClientId>(place.size)) {
    examples.train_lists.append(phase.train[id]);
    if (experiment.client_tests().clients() > 0) examples.test_lists.append(experiment.client_tests()[id]);
    examples.ids.push_back(id);
  }
  return examples;
}

/// The processes of an MPI job; null where the run has none.
std::unique_ptr<Transport> ranks_of(const ExperimentConfig& config) {
  if (config.federation.transport != FederationConfig::Transport::kMpi) return nullptr;
  if (config.continual) {
    throw ConfigError("federation.transport: mpi: a continual run is not spread over processes; use local");
  }
  auto ranks = Transports::make("mpi");
  use_gpu_of(ranks->place());
  return ranks;
}

/// A process of an MPI job that has no server: it hosts its clients until the server is gone.
void host_clients(const Experiment& experiment, Transport& ranks, const RunRequest& request) {
  use_kernels_of(experiment.config().federation);
  std::map<ClientId, ClientState> states;
  std::mutex mutex;
  const auto stop = [&request] { return request.interrupts && request.interrupts() >= 2; };
  ClientHalf half({.model = experiment.task_model(),
                   .examples = client_examples(experiment, experiment.phases().front(), ranks.place()),
                   .rounds = static_cast<std::uint64_t>(experiment.phases().front().rounds),
                   .states = {[&](ClientId id) {
                                const std::lock_guard lock(mutex);
                                return states[id];
                              },
                              [&](ClientId id, std::uint64_t, ClientState state) {
                                const std::lock_guard lock(mutex);
                                states[id] = std::move(state);
                              }},
                   .stop = stop});
  SummingClients clients(half.clients());
  LinkInput input{ranks, clients, 0, experiment.task_model().layout(), stop};
  input.serves = false;
  LinkedFederations::make("wire", input).reset();
}

std::string own_models_text(const ExperimentConfig& config, const std::filesystem::path& run) {
  const AlgorithmTraits& traits = config.algorithm.traits();
  if (const auto models = run / kClientModels; std::filesystem::exists(models)) {
    return "clients' own models: " + models.string();
  }
  if (!traits.personal) return "";
  return fmt::format("the server has no model; a client's own: chorus model personal {} CLIENT{}", run.string(),
                     traits.any_network ? ", or all with checkpoint.client_models: true" : "");
}

// Checks made before the run folder exists.
void check_clients(const Experiment& experiment) {
  const ExperimentConfig& config = experiment.config();
  check_emulation(experiment.task_model(), experiment.networks());
  const auto algorithm = config.algorithm.make();
  algorithm->prepare(experiment.model().layout());
  if (config.algorithm.traits().splits) {
    const TaskModel& model = experiment.task_model();
    algorithm->prepare_split(SplitTrainingDesk({model.task(), model.model(), model.params()}, config.trainer, 0, 1));
  }
  if (config.algorithm.traits().pooled) return;
  const bool dealt = config.clients.file.empty() && config.clients.partition.name() != "natural";
  if ((config.algorithm.traits().own_models || config.evaluation.personal) && dealt &&
      config.clients.test_mix == TestMix::kIndependent && !experiment.data().split(Split::kTest).empty()) {
    Log("clients").warning(
        "clients.test_mix is independent, so a client's test examples are unlike its training examples; set it to same "
        "to measure personalization");
  }
  const auto selector = config.selection.make();
  for (const Phase& phase : experiment.phases()) {
    std::vector<double> sizes;
    for (std::size_t c = 0; c < phase.train.clients(); ++c)
      sizes.push_back(static_cast<double>(phase.train.size_of(c)));
    for (const ClientId client : newcomers_of(config, sizes)) sizes[client] = 0;
    check_cohort(*selector, sizes, static_cast<std::size_t>(config.clients_per_round), config.emulation.has_value());
  }
}

/// One simulated run from its first (or next) round to its end.
class ExperimentRun {
 public:
  ExperimentRun(const Experiment& experiment, const ServerHalf& server, RunFolder folder, const RunRequest& request,
                Transport* ranks = nullptr)
      : experiment_(experiment),
        ranks_(ranks),
        config_(experiment.config()),
        server_(server),
        request_(request),
        folder_(std::move(folder)),
        cache_(config_.trainer.cache, folder_.path() / "activations"),
        checkpoints_(folder_, config_),
        journal_(folder_, server_) {
    for (const Phase& phase : experiment_.phases()) rounds_ += phase.rounds;
  }

  /// `begun`: when this process's part of the run was.
  RunReport run(Moment begun) {
    const TorchThreads one(1);  // this thread averages while the workers train
    const bool wants_tf32 = config_.trainer.precision == TrainerConfig::Precision::kTf32;
    const bool gpu = experiment_.params().device().is_cuda();
    if (wants_tf32 && !gpu) Log("run").info("trainer.precision: tf32 is float32 on a CPU");
    const Tf32Matmuls tf32(wants_tf32 && gpu);
    use_kernels_of(config_.federation);
    checkpoints_.begin(server_, experiment_.data().fingerprint().hex());
    Log("run").info("{}: {}, {}", folder_.path().string(), config_.algorithm.name(), experiment_.description());
    journal_.begin(state(), rounds_, experiment_.phases().front().train.clients());
    if (!request_.trial) write_client_file(folder_.path(), experiment_.partition(), experiment_.data());
    state().setup_seconds += seconds_since(begun);
    RoundLoopEnd end = RoundLoopEnd::kFinished;
    const auto phases = static_cast<std::int64_t>(experiment_.phases().size());
    while (state().phase < phases) {
      end = run_phase();
      if (end == RoundLoopEnd::kStopped) interrupted();
      finish_phase();
      if (end == RoundLoopEnd::kTargetReached || end == RoundLoopEnd::kBudgetSpent) break;
    }
    journal_.end_rounds();
    const double saving_seconds = save_models();
    checkpoints_.wait(journal_.tracker());
    const RunReport report{folder_.path(), journal_.finish(state(), end, saving_seconds),
                           own_models_text(config_, folder_.path())};
    const std::string card = model_card(config_, report.summary);
    for (const char* name : {"model", "model_best"}) {
      if (const auto folder = folder_.path() / name; std::filesystem::exists(folder))
        write_file(folder / "README.md", card);
    }
    return report;
  }

 private:
  RunState& state() { return checkpoints_.state(); }
  const Phase& phase() { return experiment_.phases()[static_cast<std::size_t>(state().phase)]; }

  std::int64_t rounds_before_phase() {
    std::int64_t rounds = 0;
    for (std::int64_t p = 0; p < state().phase; ++p) rounds += experiment_.phases()[static_cast<std::size_t>(p)].rounds;
    return rounds;
  }

  RoundLoopEnd run_phase() {
    const auto stop_at_once = [this] { return request_.interrupts && request_.interrupts() >= 2; };
    const Transport::Place place = ranks_ != nullptr ? ranks_->place() : Transport::Place{};
    ClientHalf half({.model = experiment_.task_model(),
                     .examples = client_examples(experiment_, phase(), place),
                     .rounds = static_cast<std::uint64_t>(rounds_),
                     .states = checkpoints_.shelf(),
                     .cache = &cache_,
                     .stop = stop_at_once,
                     .folder = folder_.path(),
                     .ledgers = state().ledgers,
                     .networks = experiment_.networks(),
                     .network_of = experiment_.network_of()});
    SummingClients summing(half.clients());
    WatchedFederation watched(ranks_ != nullptr ? static_cast<Federation&>(summing) : half.clients(),
                              [this](std::size_t done, std::size_t asked) { journal_.show_replies(done, asked); });
    SimulatedLink link({.model = experiment_.task_model(),
                        .clients = watched,
                        .networks = experiment_.networks(),
                        .clock = [this] { return state().loop.emulated.seconds; },
                        .stop = stop_at_once,
                        .ranks = ranks_,
                        .others = phase().train.clients() - half.clients().roster().size(),
                        .shared = ranks_ != nullptr && shares_clients(config_)});

    const std::int64_t before = rounds_before_phase();
    ServerRounds rounds{
        .first = before + 1, .last = before + phase().rounds, .total = rounds_, .tracker = journal_.tracker()};
    rounds.phase = state().phase;
    rounds.cache = &cache_;
    rounds.folder = folder_.path();
    rounds.trial = request_.trial;
    rounds.stop = [this] { return request_.interrupts && request_.interrupts() >= 1; };
    rounds.show = [this](const RoundLoopState& loop, const RoundResult& result) { journal_.show(loop, result); };
    rounds.save = [this, &half](const ServerMemory& memory, bool last) {
      for (const auto& [file, mark] : half.ledgers()) state().ledgers[file] = mark;
      checkpoints_.save(memory, last, journal_.tracker());
    };
    rounds.attacked = experiment_.attacked_test();
    rounds.numbers = [this, &link, guard = half.guard()] {
      std::map<std::string, double> numbers = link.numbers();
      if (guard != nullptr) numbers["example_epsilon"] = guard->epsilon();
      if (const std::int64_t every = config_.audit ? config_.audit->every : 0;
          every > 0 && (state().loop.round + 1) % every == 0) {
        numbers["canary_exposure"] = median_exposure(experiment_, server_.start(), state().loop.model);
      }
      return numbers;
    };
    if (experiment_.phases().size() > 1 && state().loop.round < rounds.first) {
      journal_.tracker().record({"phase_started", rounds.first, {}, {{"name", phase().name}}});
    }
    try {
      std::optional<RecordedFederation> recorded;
      if (request_.asks != nullptr) recorded.emplace(link.clients(), *request_.asks);
      Federation& clients = recorded ? static_cast<Federation&>(*recorded) : link.clients();
      const RoundLoopEnd end = server_.run(clients, rounds, state());
      if (half.guard() != nullptr) add_report(state(), half.guard()->report());
      if (half.labels() != nullptr) add_report(state(), half.labels()->report());
      if (half.local_charges() != nullptr) {
        add_report(state(), except_own_models(half.local_charges()->report(), config_.algorithm.traits()));
      }
      return end;
    } catch (const Interrupted&) {
      interrupted();
    }
  }

  void finish_phase() {
    PhaseSummary summary = summarize_phase(phase().name, rounds_before_phase() + 1, state().loop);
    const std::vector<TestSet>& segments = experiment_.segment_tests();
    for (std::size_t s = 0; s < segments.size(); ++s) {
      summary.last[segment_score_name(s)] = server_.score(state().loop.model, state().variant, segments[s]);
      if (state().phase > 0) continue;
      summary.last[segment_score_name(s, true)] = server_.score(server_.start(), {}, segments[s]);
    }
    state().phases.push_back(std::move(summary));
    ++state().phase;
    state().coverage.clear();
  }

  [[noreturn]] void interrupted() {
    checkpoints_.wait(journal_.tracker());
    throw Interrupted(fmt::format("stopped after round {} of {}; to go on: chorus resume {}",
                                  checkpoints_.newest_round(), rounds_, folder_.path().string()));
  }

  /// The seconds it took.
  double save_models() {
    const auto begin = std::chrono::steady_clock::now();
    const RoundLoopState& loop = state().loop;
    std::future<void> best;  // beside the last model and the last checkpoint
    if (server_.has_model() && loop.best_model.defined() && loop.best_round != loop.round) {
      best = std::async(std::launch::async, [&] {
        const TorchThreads one(1);
        server_.save_model(folder_.path() / "model_best", loop.best_model, loop.best_variant);
      });
    }
    if (server_.has_model()) server_.save_model(folder_.model(), loop.model, state().variant);
    if (best.valid()) best.get();
    if (config_.checkpoint.client_models) save_client_models();
    return seconds_since(begin);
  }

  void save_client_models() {
    const StateShelf shelf = checkpoints_.shelf();
    for (ClientId id = 0; id < experiment_.phases().front().train.clients(); ++id) {
      const ClientState state = shelf.load(id);
      const auto found = state.find(kOwnModel);
      if (found == state.end()) continue;  // it has never been asked
      const TaskModel& model = experiment_.model_of(id);
      model.save(folder_.path() / kClientModels / std::to_string(id), found->second.to(model.device()), {});
    }
  }

  const Experiment& experiment_;
  Transport* ranks_;  // null: all clients are in this process
  const ExperimentConfig& config_;
  const ServerHalf& server_;
  RunRequest request_;
  RunFolder folder_;
  ActivationCache cache_;
  RunCheckpoints checkpoints_;
  RunJournal journal_;
  std::int64_t rounds_ = 0;
};

}  // namespace

RunReport run_experiment(const ExperimentConfig& given, const RunRequest& request) {
  const Moment begun = std::chrono::steady_clock::now();
  const std::unique_ptr<Transport> ranks = ranks_of(given);
  ExperimentConfig config = given;
  if (ranks && config.federation.workers == 0) {
    config.federation.workers =
        std::max(static_cast<int>(std::thread::hardware_concurrency()) / ranks->place().beside, 1);
  }
  const Experiment experiment(config);
  const ServerHalf server(experiment.task_model(), server_test(experiment), server_public(experiment));
  check_clients(experiment);
  if (ranks && (!experiment.networks().empty() || config.algorithm.traits().own_models)) {
    throw ConfigError(
        "federation.transport: mpi: clients with models of their own are not spread over processes; use "
        "local");
  }
  if (ranks && ranks->place().rank > 0) {
    host_clients(experiment, *ranks, request);
    return {};
  }
  NewRun run;
  run.folder = request.folder;
  run.parent = request.parent;
  run.experiment = config.name;
  run.config_yaml = config_to_yaml(config, "experiment");
  run.info.command = request.command;
  run.info.chorus_version = request.version;
  run.info.torch_version = TORCH_VERSION;
  run.info.seed = static_cast<std::uint64_t>(config.seed);
  return ExperimentRun(experiment, server, RunFolder::create(run), request, ranks.get()).run(begun);
}

RunReport resume_experiment(const std::filesystem::path& folder, const RunRequest& request) {
  const Moment begun = std::chrono::steady_clock::now();
  RunFolder opened = RunFolder::open(folder);
  auto config = ConfigDocument::read(opened.config()).load<ExperimentConfig>();
  if (request.rounds > 0) {
    if (config.continual) {
      throw ConfigError(fmt::format("{}: a continual run has its rounds in every segment and cannot be made longer",
                                    folder.string()));
    }
    if (request.rounds <= config.rounds) {
      throw ConfigError(fmt::format("rounds={}: {} has {} rounds already, and can only be made longer", request.rounds,
                                    folder.string(), config.rounds));
    }
    config.rounds = request.rounds;
    write_file(opened.config(), config_to_yaml(config, "experiment"));
  } else if (const auto summary = read_run_summary(folder)) {
    return {folder, *summary, own_models_text(config, folder)};
  }
  if (config.federation.transport == FederationConfig::Transport::kMpi) {
    throw ConfigError(fmt::format("{}: a run over MPI keeps clients' states in its processes and cannot be resumed",
                                  folder.string()));
  }
  const Experiment experiment(config);
  const ServerHalf server(experiment.task_model(), server_test(experiment), server_public(experiment));
  return ExperimentRun(experiment, server, std::move(opened), request).run(begun);
}

}  // namespace chorus::inline experiment
