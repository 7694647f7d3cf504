#include "apps/experiment/run_experiment.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/version.h>

#include <chrono>
#include <future>
#include <memory>

#include "algorithm/compression/filtered_federation.h"
#include "application/trainer/client_pool.h"
#include "apps/experiment/emulated_work.h"
#include "apps/experiment/experiment.h"
#include "apps/experiment/machine.h"
#include "apps/experiment/run_filters.h"
#include "apps/experiment/run_state.h"
#include "apps/experiment/task_scorer.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/console/log.h"
#include "core/console/progress.h"
#include "core/device/kernels.h"
#include "core/device/tf32.h"
#include "core/device/torch_runtime.h"
#include "core/files/files.h"
#include "core/ports/link.h"
#include "infrastructure/checkpoint/checkpoint_writer.h"
#include "infrastructure/checkpoint/client_state_store.h"
#include "infrastructure/emulation/emulated_federation.h"
#include "infrastructure/federation/local_federation.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus::inline experiment {
namespace {

constexpr double kAutoCheckpointSeconds = 30;

using Moment = std::chrono::steady_clock::time_point;

double seconds_since(Moment begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Checks made before the run folder exists.
void check_plan(const Experiment& experiment) {
  const ExperimentConfig& config = experiment.config();
  Scores scores = experiment.task().metric()->scores();
  scores["eval_loss"] = 0;
  if (const std::string& metric = config.evaluation.metric; metric != "auto" && !scores.contains(metric)) {
    std::string names;
    for (const auto& entry : scores) names += (names.empty() ? "" : ", ") + entry.first;
    throw ConfigError(fmt::format("evaluation.metric: this task has no score \"{}\"; it has {}", metric, names));
  }
  check_emulation(experiment);
  if (config.algorithm.traits().pooled) return;
  const auto selector = config.selection.make();
  for (const Phase& phase : experiment.phases()) {
    std::vector<double> sizes;
    for (std::size_t c = 0; c < phase.train.clients(); ++c)
      sizes.push_back(static_cast<double>(phase.train.size_of(c)));
    check_cohort(*selector, sizes, static_cast<std::size_t>(config.clients_per_round), config.emulation.has_value());
  }
}

/// One run from its first (or next) round to its end.
class ExperimentRun {
 public:
  ExperimentRun(const Experiment& experiment, RunFolder folder, const RunRequest& request, Moment begun)
      : begun_(begun),
        experiment_(experiment),
        config_(experiment.config()),
        request_(request),
        folder_(std::move(folder)),
        checkpoints_(folder_.checkpoints(), static_cast<std::size_t>(config_.checkpoint.keep)),
        states_(folder_.clients(), {.memory_bytes = static_cast<std::size_t>(config_.federation.state_memory) << 20}),
        cache_(config_.trainer.cache, folder_.path() / "activations") {
    for (const Phase& phase : experiment_.phases()) rounds_ += phase.rounds;
    metric_ = config_.evaluation.metric == "auto" ? experiment_.task().main_score().name : config_.evaluation.metric;
  }

  RunReport run() {
    const TorchThreads one(1);  // this thread averages while the workers train
    const bool wants_tf32 = config_.trainer.precision == TrainerConfig::Precision::kTf32;
    const bool gpu = experiment_.params().device().is_cuda();
    if (wants_tf32 && !gpu) Log("run").info("trainer.precision: tf32 is float32 on a CPU");
    const Tf32Matmuls tf32(wants_tf32 && gpu);
    begin();
    RoundLoopEnd end = RoundLoopEnd::kFinished;
    const auto phases = static_cast<std::int64_t>(experiment_.phases().size());
    while (state_.phase < phases) {
      end = run_phase();
      if (end == RoundLoopEnd::kStopped) interrupted();
      finish_phase();
      if (end == RoundLoopEnd::kTargetReached) break;
    }
    progress_->finish();
    return finish(end);
  }

 private:
  void begin() {
    state_.data = experiment_.data().fingerprint().hex();
    if (const auto checkpoint = load_federation(checkpoints_, states_)) {
      RunState saved = to_run_state(*checkpoint);
      if (saved.data != state_.data) {
        throw DataError(
            fmt::format("{}: the data is no longer what the run was started with; put the old data back, or "
                        "start a new run",
                        folder_.path().string()));
      }
      state_ = std::move(saved);
      state_.loop.model = state_.loop.model.to(experiment_.params().device());
      if (state_.loop.best_model.defined()) {
        state_.loop.best_model = state_.loop.best_model.to(experiment_.params().device());
      }
    } else {
      state_.loop.model = experiment_.params().values()[0].clone();
    }
    if (state_.loop.model.numel() != experiment_.model().layout().trainable_size()) {
      throw DataError(fmt::format("{}: the checkpoint is of another network", folder_.path().string()));
    }
    // Without a checkpoint everything is told anew, what comes before the first round included.
    tracker_ = folder_.tracker(state_.loop.round > 0 ? state_.loop.round : -1);
    if (state_.loop.round == 0) {
      const Layout& layout = experiment_.model().layout();
      Event started{"run_started", 0};
      started.numbers = {{"seed", static_cast<double>(config_.seed)},
                         {"rounds", static_cast<double>(rounds_)},
                         {"clients", static_cast<double>(experiment_.phases().front().train.clients())},
                         {"parameters", static_cast<double>(layout.size())},
                         {"trained_parameters", static_cast<double>(layout.trainable_size())}};
      if (config_.evaluation.target) started.numbers["target"] = *config_.evaluation.target;
      started.texts = {{"name", config_.name},
                       {"algorithm", config_.algorithm.name()},
                       {"metric", metric_},
                       {"goal", higher_is_better(experiment_.task(), metric_) ? "max" : "min"}};
      tracker_->record(started);
    } else {
      tracker_->record({"resumed", state_.loop.round, {}, {}});
    }
    Log("run").info("{}: {}, {}", folder_.path().string(), config_.algorithm.name(), experiment_.description());
    ProgressOptions options;
    options.label = config_.name;
    options.total = rounds_;
    options.unit = "rounds";
    options.initial = state_.loop.round;
    progress_.emplace(std::move(options));
    state_.setup_seconds += seconds_since(begun_);
    saved_at_ = std::chrono::steady_clock::now();
  }

  std::int64_t rounds_before_phase() const {
    std::int64_t rounds = 0;
    for (std::int64_t p = 0; p < state_.phase; ++p) rounds += experiment_.phases()[static_cast<std::size_t>(p)].rounds;
    return rounds;
  }

  RoundLoopEnd run_phase() {
    const Phase& phase = experiment_.phases()[static_cast<std::size_t>(state_.phase)];
    const std::int64_t before = rounds_before_phase();

    ClientPoolInput input{.trainer = {experiment_.task(), experiment_.model(), experiment_.params(), &cache_},
                          .data = experiment_.data(),
                          .train = experiment_.train()};
    input.config = config_.trainer;
    input.network = &experiment_.network();
    input.test = experiment_.test();
    input.train_lists = &phase.train;
    input.test_lists = &experiment_.client_tests();
    input.shared_test = experiment_.shared_test();
    input.seed = static_cast<std::uint64_t>(config_.seed);
    input.rounds = static_cast<std::uint64_t>(rounds_);
    input.states = {[this](ClientId id) { return states_.load(id); },
                    [this](ClientId id, std::uint64_t round, ClientState kept) {
                      states_.store(id, static_cast<std::int64_t>(round), kept);
                    }};
    const ClientPool pool(input);
    const FilterEndInput filters = filter_input(experiment_);
    const FilterEnd gate(filters, FilterEnd::Side::kClient);
    LocalFederation local(federation_input(pool, gate));
    std::unique_ptr<Transport> transport;
    std::unique_ptr<LinkedFederation> linked;
    if (config_.federation.transport == FederationConfig::Transport::kSerialised) {
      transport = Transports::make("inproc");
      linked = LinkedFederations::make("wire", LinkInput{*transport, local, 0, layout_fingerprint(), stop_at_once()});
    }
    Federation& answering = linked ? static_cast<Federation&>(*linked) : local;
    std::optional<Fleet> fleet;
    std::optional<EmulatedFederation> emulated;
    if (config_.emulation) {
      fleet.emplace(*config_.emulation, static_cast<std::uint64_t>(config_.seed));
      emulated.emplace(EmulatedFederationInput{
          .inner = answering,
          .fleet = *fleet,
          .work = emulated_work(experiment_),
          .clock = [this] { return state_.loop.emulated.seconds; },
          .batches = [&](ClientId client) { return round_batches(config_.trainer, pool.sizes()[client]); }});
    }
    // Without filters it passes everything on as it is.
    FilteredFederation federation(filters, emulated ? static_cast<Federation&>(*emulated) : answering);
    federation.restore(std::exchange(state_.filters, {}));

    const AlgorithmTraits& traits = config_.algorithm.traits();
    const auto algorithm = config_.algorithm.make();
    algorithm->restore(on_device(std::exchange(state_.server, {})));
    const auto aggregation = config_.aggregation.make();
    aggregation->restore(on_device(std::exchange(state_.aggregation, {})));
    const auto selector = config_.selection.make();
    TaskScorer scorer({experiment_.task(),
                       experiment_.network(),
                       {experiment_.data(), experiment_.test(), experiment_.shared_test()},
                       pool.sizes(),
                       static_cast<std::uint64_t>(config_.seed),
                       &cache_,
                       config_.trainer.precision,
                       static_cast<int>(config_.federation.workers)});
    DeviceCoverage coverage(pool.sizes());
    if (!state_.coverage.empty()) coverage.restore(state_.coverage, state_.coverage_rounds);

    RoundLoopParts parts{federation, *algorithm, traits, *aggregation, *selector, scorer, *tracker_, coverage};
    parts.variants = &experiment_.network();
    parts.stop = [this] { return request_.interrupts && request_.interrupts() >= 1; };
    parts.show = [this](const RoundLoopState& loop, const RoundResult& result) { show(loop, result); };
    parts.save = [&](const RoundLoopState& loop, bool last) {
      save(loop, last, {*algorithm, *aggregation, coverage, federation.state()});
    };
    parts.numbers = [&] { return federation.numbers(); };
    RoundLoopConfig loop = loop_config();
    loop.first_round = before + 1;
    loop.last_round = before + phase.rounds;
    if (traits.pooled) {
      loop.clients_per_round = 1;
      if (loop.emulation) loop.emulation->over_selection = 1;
    }
    if (experiment_.phases().size() > 1 && state_.loop.round < loop.first_round) {
      tracker_->record({"phase_started", loop.first_round, {}, {{"name", phase.name}}});
    }
    try {
      const RoundLoopEnd end = run_rounds(parts, loop, state_.loop);
      keep({*algorithm, *aggregation, coverage, federation.state()});
      Log("run").info("{}", coverage.text());
      return end;
    } catch (const Interrupted&) {
      interrupted();
    }
  }

  // Checkpoints come back on the CPU; server state is where the model is.
  std::map<std::string, at::Tensor> on_device(std::map<std::string, at::Tensor> state) const {
    for (auto& entry : state) {
      if (entry.second.scalar_type() == at::kFloat) entry.second = entry.second.to(experiment_.params().device());
    }
    return state;
  }

  std::uint64_t layout_fingerprint() const { return experiment_.model().layout().fingerprint(); }

  std::function<bool()> stop_at_once() const {
    return [this] { return request_.interrupts && request_.interrupts() >= 2; };
  }

  LocalFederationInput federation_input(const ClientPool& pool, const Gate& gate) {
    const bool gpu = experiment_.params().device().is_cuda();
    use_fast_kernels(config_.federation.kernels == FederationConfig::Kernels::kFast);
    use_deterministic(config_.federation.deterministic);
    const MachineShare share = machine_share(config_, gpu, pool.client_bytes());
    LocalFederationInput input;
    input.roster = Roster::of_sizes(pool.sizes());
    if (config_.compression.any()) input.gate = &gate;
    input.open = [&pool](std::span<const ClientId> ids, const Request& request) {
      return pool.open(ids, request.round, read_variant(request.body));
    };
    input.cohort_batch = share.cohort_batch;
    input.workers = share.workers;
    input.threads = share.threads;
    input.layout = layout_fingerprint();
    input.stop = stop_at_once();
    return input;
  }

  RoundLoopConfig loop_config() const {
    RoundLoopConfig loop;
    loop.rounds = rounds_;
    loop.clients_per_round = static_cast<std::size_t>(config_.clients_per_round);
    loop.weighting = config_.weighting;
    loop.seed = static_cast<std::uint64_t>(config_.seed);
    loop.evaluate_every = config_.evaluation.every;
    loop.metric = metric_;
    loop.higher_is_better = higher_is_better(experiment_.task(), metric_);
    loop.target = config_.evaluation.target;
    loop.per_client = config_.evaluation.per_client;
    loop.evaluation_clients = static_cast<std::size_t>(config_.evaluation.clients);
    loop.targets = config_.evaluation.targets;
    if (config_.emulation) {
      loop.emulation = EmulatedLoop{config_.emulation->over_selection, config_.emulation->idle_seconds};
    }
    return loop;
  }

  void show(const RoundLoopState& loop, const RoundResult& result) {
    std::string note = fmt::format("loss {:.4f}", result.loss);
    if (const auto found = loop.last.find(metric_); found != loop.last.end()) {
      note += fmt::format("  {} {:.4f}", metric_, found->second);
    }
    note += fmt::format("  {:.0f} examples/s", loop.examples / std::max(loop.seconds, 1e-9));
    progress_->note(note);
    progress_->advance();
  }

  /// What a phase works with and a checkpoint remembers.
  struct Remembered {
    const Algorithm& algorithm;
    const Aggregation& aggregation;
    const DeviceCoverage& coverage;
    const ClientState& filters;
  };

  void keep(const Remembered& parts) {
    state_.server = parts.algorithm.state();
    state_.variant = parts.algorithm.variant();
    state_.aggregation = parts.aggregation.state();
    state_.filters = parts.filters;
    state_.coverage.assign(parts.coverage.times().begin(), parts.coverage.times().end());
    state_.coverage_rounds = parts.coverage.rounds();
  }

  void save(const RoundLoopState& loop, bool last, const Remembered& parts) {
    const auto now = std::chrono::steady_clock::now();
    const double since = seconds_since(saved_at_);
    const std::int64_t every = config_.checkpoint.every;
    report(writer_.poll());
    if (!last && (every > 0 ? loop.round % every != 0 : since < kAutoCheckpointSeconds)) return;
    report(writer_.wait());
    keep(parts);
    // Before the checkpoint: resuming from it keeps the events up to its round.
    tracker_->flush();
    writer_.save(to_checkpoint(state_));
    state_.server.clear();
    state_.aggregation.clear();
    state_.filters.clear();
    saved_at_ = now;
  }

  void report(const std::optional<WrittenCheckpoint>& written) {
    if (!written) return;
    state_.checkpoint_seconds += written->waited;
    state_.checkpoint_background_seconds += written->writing;
    tracker_->record(
        {"checkpoint", written->round, {{"seconds", written->waited}, {"background_seconds", written->writing}}, {}});
  }

  void finish_phase() {
    const Phase& phase = experiment_.phases()[static_cast<std::size_t>(state_.phase)];
    state_.phases.push_back(summarize_phase(phase.name, rounds_before_phase() + 1, state_.loop));
    ++state_.phase;
    state_.coverage.clear();
  }

  [[noreturn]] void interrupted() {
    report(writer_.wait());
    throw Interrupted(fmt::format("stopped after round {} of {}; to go on: chorus resume {}",
                                  checkpoints_.rounds().empty() ? 0 : checkpoints_.rounds().back(), rounds_,
                                  folder_.path().string()));
  }

  RunReport finish(RoundLoopEnd end) {
    const RoundLoopState& loop = state_.loop;
    RunSummary summary;
    summary.status = end == RoundLoopEnd::kTargetReached ? "target_reached" : "finished";
    summary.algorithm = config_.algorithm.name();
    summary.metric = metric_;
    summary.higher_is_better = higher_is_better(experiment_.task(), metric_);
    summary.target = config_.evaluation.target;
    summary.rounds_to_target = loop.rounds_to_target;
    summary.rounds = loop.round;
    summary.best_round = loop.best_round;
    summary.last = loop.last;
    summary.best = loop.best;
    summary.examples = loop.examples;
    summary.bytes_up = loop.bytes_up;
    summary.bytes_down = loop.bytes_down;
    summary.seconds = loop.seconds;
    if (config_.emulation) summary.emulated = loop.emulated;
    summary.targets = loop.targets;
    if (state_.phases.size() > 1) summary.phases = state_.phases;
    for (const ClientGroupScores& decile : loop.deciles) {
      summary.deciles.push_back({decile.name, static_cast<std::int64_t>(decile.clients), decile.scores});
    }
    const auto saving = std::chrono::steady_clock::now();
    std::future<void> best;  // beside the last model and the last checkpoint
    if (loop.best_model.defined() && loop.best_round != loop.round) {
      best = std::async(std::launch::async, [&] {
        const TorchThreads one(1);
        experiment_.save_model(folder_.path() / "model_best", loop.best_model, loop.best_variant);
      });
    }
    experiment_.save_model(folder_.model(), loop.model, state_.variant);
    if (best.valid()) best.get();
    const double saved = seconds_since(saving);
    report(writer_.wait());
    summary.parts = {.setup = state_.setup_seconds,
                     .training = loop.seconds - loop.evaluation_seconds,
                     .evaluation = loop.evaluation_seconds,
                     .checkpoints = state_.checkpoint_seconds,
                     .checkpoints_background = state_.checkpoint_background_seconds,
                     .saving = saved};
    tracker_->record({"run_finished", loop.round, {{"seconds", loop.seconds}}, {{"status", summary.status}}});
    tracker_->flush();
    folder_.write_summary(summary);
    return {folder_.path(), summary};
  }

  Moment begun_;  // of this process's part of the run
  const Experiment& experiment_;
  const ExperimentConfig& config_;
  RunRequest request_;
  RunFolder folder_;
  CheckpointStore checkpoints_;
  ClientStateStore states_;
  ActivationCache cache_;
  std::int64_t rounds_ = 0;
  std::string metric_;
  RunState state_;
  std::unique_ptr<Tracker> tracker_;
  std::optional<Progress> progress_;
  Moment saved_at_;
  CheckpointWriter writer_{checkpoints_, states_};
};

}  // namespace

RunReport run_experiment(const ExperimentConfig& config, const RunRequest& request) {
  const Moment begun = std::chrono::steady_clock::now();
  const Experiment experiment(config);
  check_plan(experiment);
  NewRun run;
  run.folder = request.folder;
  run.parent = request.parent;
  run.experiment = config.name;
  run.config_yaml = config_to_yaml(config, "experiment");
  run.info.command = request.command;
  run.info.chorus_version = request.version;
  run.info.torch_version = TORCH_VERSION;
  run.info.seed = static_cast<std::uint64_t>(config.seed);
  return ExperimentRun(experiment, RunFolder::create(run), request, begun).run();
}

RunReport resume_experiment(const std::filesystem::path& folder, const RunRequest& request) {
  const Moment begun = std::chrono::steady_clock::now();
  RunFolder opened = RunFolder::open(folder);
  if (const auto summary = read_run_summary(folder)) return {folder, *summary};
  const Experiment experiment(ConfigDocument::read(opened.config()).load<ExperimentConfig>());
  return ExperimentRun(experiment, std::move(opened), request, begun).run();
}

}  // namespace chorus::inline experiment
