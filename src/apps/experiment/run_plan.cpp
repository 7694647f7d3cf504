#include "apps/experiment/run_plan.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "algorithm/selection/selector.h"
#include "application/trainer/cohort_trainer.h"
#include "application/trainer/split_parts.h"
#include "apps/experiment/emulated_work.h"
#include "apps/experiment/experiment.h"
#include "apps/experiment/run_experiment.h"
#include "core/base/error.h"
#include "core/console/quiet_console.h"
#include "infrastructure/emulation/emulated_federation.h"
#include "infrastructure/tracking/metrics_log.h"

namespace chorus::inline experiment {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTrialRounds = 2, kTrialSteps = 4;
constexpr std::int64_t kMostEmulatedRounds = 500;
// Over many rounds the allocator holds more than in a short trial: configs/demo.yaml needs 0.80 GB after two rounds,
// 0.98 GB after eight and 1.03 GB after ten.
constexpr double kAllocatorSlack = 1.25;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Clients that report their batches and the bytes they would send, without training.
class DryFederation : public Federation {
 public:
  DryFederation(Roster roster, std::vector<double> batches, double down, double up)
      : roster_(std::move(roster)), batches_(std::move(batches)), down_(down), up_(up) {}

  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override {
    return {static_cast<std::uint64_t>(answers_ * down_), static_cast<std::uint64_t>(answers_ * up_)};
  }
  Replies ask(std::span<const ClientId> cohort, Request) override {
    const std::vector<ClientId> clients(cohort.begin(), cohort.end());
    return Replies([this, clients, next = std::size_t{0}]() mutable -> std::optional<Reply> {
      if (next == clients.size()) return std::nullopt;
      const ClientId client = clients[next];
      Reply reply{client, next++, {}, roster_.size_of(client) > 0 ? "" : "it has no training data"};
      reply.bytes_down = static_cast<std::uint64_t>(down_);
      reply.bytes_up = static_cast<std::uint64_t>(up_);
      reply.body.tensors["update"] = torch::zeros({1});
      reply.body.numbers = {{"batches", batches_[client]}, {"examples", roster_.size_of(client)}};
      if (ask_ != nullptr) work_as_in_trial(reply);
      answers_ += 1;
      return reply;
    });
  }
  double batches(ClientId client) const { return batches_[client]; }
  /// What the next request asks for, as in a trial whose clients read `batches` of their own; null: to train once.
  void follow(const TrialAsk* ask, double batches) {
    ask_ = ask;
    trial_batches_ = batches;
  }

 private:
  void work_as_in_trial(Reply& reply) const {
    const TrialWork work = ask_->of(reply.client);
    reply.bytes_down = static_cast<std::uint64_t>(work.down);
    reply.bytes_up = static_cast<std::uint64_t>(work.up);
    reply.body.numbers.erase("batches");
    if (work.batches) reply.body.numbers["load"] = *work.batches / trial_batches_ * batches_[reply.client];
    reply.body.numbers["load_texts"] = work.texts;
  }

  Roster roster_;
  std::vector<double> batches_;
  double down_, up_, answers_ = 0;
  const TrialAsk* ask_ = nullptr;
  double trial_batches_ = 1;
};

class Planner {
 public:
  Planner(const ExperimentConfig& config, const PlanOptions& options)
      : config_(config),
        options_(options),
        memory_before_(available_memory()),
        begin_(Clock::now()),
        experiment_(config) {
    plan_.setup_seconds = since(begin_);
    plan_.available_memory = memory_before_;
    plan_.description = experiment_.description();
    for (const Phase& phase : experiment_.phases()) plan_.rounds += phase.rounds;
    const bool pooled = config_.algorithm.traits().pooled;
    plan_.asked = pooled ? 1 : static_cast<double>(check_emulation(experiment_.task_model(), experiment_.networks()));
    count_batches();
  }

  RunPlan plan() {
    memory();
    run_trial();
    if (config_.emulation) emulate();
    return plan_;
  }

 private:
  void count_batches() {
    const ClientLists& lists = experiment_.phases().front().train;
    for (std::size_t c = 0; c < lists.clients(); ++c) {
      sizes_.push_back(static_cast<double>(lists.size_of(c)));
      const auto rows = experiment_.task().client_data(experiment_.train(), lists[c]).rows.size();
      batches_.push_back(rows > 0 ? round_batches(config_.trainer, static_cast<double>(rows)) : 0);
    }
  }

  /// Of the longest rows.
  double batch_tokens(const EncodedDataset& data) const {
    std::size_t longest = 1;
    for (std::uint32_t row = 0; row < data.rows(); ++row) longest = std::max(longest, data.length(row));
    return static_cast<double>(longest) * static_cast<double>(config_.trainer.batch_size);
  }

  double client_memory(const TaskModel& model, double tokens) const {
    return CohortTrainer({model.task(), model.model(), model.params()}, config_.trainer).client_bytes(tokens);
  }

  void memory() {
    const bool gpu = experiment_.params().device().is_cuda();
    const double tokens = batch_tokens(*experiment_.train());
    const Layout& layout = experiment_.model().layout();
    const double update = 4 * static_cast<double>(layout.trainable_size());
    plan_.client_memory = client_memory(experiment_.task_model(), tokens);
    for (const ClientNetwork& network : experiment_.networks()) {
      const double needed = client_memory(*network.model, batch_tokens(*network.train));
      plan_.client_memory = std::max(plan_.client_memory, needed);
    }
    plan_.machine = machine_share(config_, gpu, plan_.client_memory);
    const MachineShare& share = plan_.machine;
    const double batches = std::ceil(plan_.asked / static_cast<double>(share.cohort_batch));
    const double side_by_side = std::min(static_cast<double>(share.workers), batches);
    const double clients = std::min(static_cast<double>(share.cohort_batch), plan_.asked);
    plan_.cohort_memory = side_by_side * clients * plan_.client_memory;
    // The model, its best version and the copy that is sent; partial sums of the average; unread replies.
    plan_.server_memory = 4 * static_cast<double>(layout.size()) +
                          update * (3 + std::log2(plan_.asked + 1) + std::min(2 * side_by_side * clients, plan_.asked));
    plan_.cache_memory = cache_memory();
    plan_cuts(tokens);
    if (!gpu) refuse(side_by_side);
  }

  /// Ways to cut the network, with batches of so many tokens.
  void plan_cuts(double tokens) {
    const bool splits = config_.algorithm.traits().splits;
    const Model& model = experiment_.model();
    if ((!splits && !options_.device_memory) || model.cuts() == 0) return;
    if (splits) {
      Choice<Algorithms> algorithm = config_.algorithm;
      ConfigVisitor visitor;
      algorithm.describe(visitor);
      const ConfigField* labels = visitor.find("labels");
      plan_.labels_stay = labels != nullptr && std::get<std::string>(labels->get().front().second) == "client";
    }
    plan_.cut_bytes = 4 * tokens * static_cast<double>(model.width());
    plan_.cut_memory = options_.device_memory;
    if (!plan_.cut_memory && config_.emulation) {
      for (const FleetPart& part : config_.emulation->fleet) {
        if (part.memory) plan_.cut_memory = std::min(plan_.cut_memory.value_or(1e30), *part.memory * 1e9);
      }
    }
    for (int layers = 0; layers <= model.cuts() - (plan_.labels_stay ? 1 : 0); ++layers) {
      const SplitCut cut{layers, plan_.labels_stay};
      const auto memory_of = [&](SplitRole role) {
        return side_memory(model, split_side(model, experiment_.params(), cut, role), tokens);
      };
      plan_.cuts.push_back({layers, memory_of(SplitRole::kClient), memory_of(SplitRole::kServer)});
    }
    if (plan_.cut_memory) {
      plan_.suggested_layers =
          layers_for_memory(model, experiment_.params(), *plan_.cut_memory, tokens, plan_.labels_stay);
    }
  }

  /// Activations of the frozen layers for all training rows, as far as they are kept in memory.
  double cache_memory() const {
    const ActivationCache::Config& cache = config_.trainer.cache;
    if (cache.mode != ActivationCache::Mode::kKeep) return 0;
    double tokens = 0;
    for (std::uint32_t row = 0; row < experiment_.train()->rows(); ++row) {
      tokens += static_cast<double>(experiment_.train()->length(row));
    }
    const auto width = static_cast<double>(experiment_.model().width());
    const double number = cache.store == ActivationCache::Store::kFloat16 ? 2 : 4;
    return std::min(tokens * width * number, static_cast<double>(cache.memory) * 1024 * 1024);
  }

  void refuse(double side_by_side) const {
    const double needed = plan_.server_memory + plan_.cache_memory + plan_.cohort_memory;
    if (needed <= memory_before_) return;
    const double left = memory_before_ - plan_.server_memory - plan_.cache_memory;
    const double fits = std::floor(left / side_by_side / plan_.client_memory);
    const double alone = std::floor(left / plan_.client_memory);
    const std::string smaller =
        "lower trainer.batch_size or the task's max_length, freeze layers (model.freeze), or take a smaller model";
    std::string what = plan_.cache_memory > 0 ? "lower trainer.cache.memory, or " + smaller : smaller;
    if (fits >= 1) {
      what = fmt::format("set federation.cohort_batch to at most {:.0f}, or {}", fits, smaller);
    } else if (alone >= 1) {
      what = fmt::format("set federation.workers and federation.cohort_batch to 1, or {}", smaller);
    }
    throw ConfigError(fmt::format(
        "this does not fit: {:.0f} clients at once need {:.2f} GB ({:.2f} GB each, federation.cohort_batch {}, "
        "federation.workers {}) and the server {:.2f} GB, but {:.2f} GB of memory are free; {}",
        plan_.cohort_memory / plan_.client_memory, plan_.cohort_memory / 1e9, plan_.client_memory / 1e9,
        plan_.machine.cohort_batch, plan_.machine.workers, plan_.server_memory / 1e9, memory_before_ / 1e9, what));
  }

  /// Runs two short rounds.
  void run_trial() {
    ExperimentConfig trial = config_;
    trial.rounds = kTrialRounds;
    const std::string& selection = config_.selection.name();
    if (selection == "poisson" || selection == "available")
      trial.selection = Choice<Selectors>("uniform");  // never none
    if (trial.emulation) {                             // all clients shall reply; an algorithm may need the clock
      trial.emulation->dropout = 0;
      trial.emulation->over_selection = 1;
      trial.emulation->deadline.reset();
    }
    trial.evaluation.every = std::min<std::int64_t>(config_.evaluation.every, 1);
    trial.evaluation.target.reset();
    trial.evaluation.targets.clear();
    if (trial.continual) trial.continual->one_shot = true;
    const double typical = mean_batches();
    trial.trainer.steps = std::max<std::int64_t>(
        1, std::min(kTrialSteps, static_cast<std::int64_t>(typical) / config_.trainer.accumulate));
    std::string pattern = (fs::temp_directory_path() / "chorus_plan_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw WorldError("no temporary folder can be made");
    const fs::path folder = pattern;
    const QuietConsole quiet;
    forget_peak_memory();
    RunRequest request;
    request.folder = folder / "run";
    request.trial = true;
    if (config_.algorithm.traits().distills) request.asks = &asks_;
    trial_batches_ = static_cast<double>(*trial.trainer.steps * trial.trainer.accumulate);
    try {
      run_experiment(trial, request);
      plan_.peak_memory = kAllocatorSlack * peak_memory();
      read_trial(request.folder, typical);
    } catch (...) {
      std::error_code ignored;
      fs::remove_all(folder, ignored);
      throw;
    }
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  double mean_batches() const {
    double sum = 0, clients = 0;
    for (std::size_t c = 0; c < sizes_.size(); ++c) {
      sum += batches_[c];
      clients += sizes_[c] > 0 ? 1 : 0;
    }
    return sum / std::max(clients, 1.0);
  }

  void read_trial(const fs::path& folder, double typical) {
    Event last;
    double rounds = 0;
    for (const Event& event : read_events(folder / "metrics.jsonl")) {
      if (event.kind == "evaluation" && rounds > 0) plan_.evaluation_seconds = event.time - last.time;
      if (event.kind != "round") continue;
      last = event;
      rounds += 1;
    }
    const double clients = std::max(last.numbers["clients"] - last.numbers["failed"], 1.0);
    down_ = last.numbers["bytes_down"] / std::max(last.numbers["clients"], 1.0);
    up_ = last.numbers["bytes_up"] / clients;
    plan_.bytes_down = down_ * plan_.asked;
    plan_.bytes_up = up_ * plan_.asked;

    // The time outside training (selecting, copying, averaging) is constant; training grows with the batches.
    const MachineShare& share = plan_.machine;
    const double parallel =
        std::min(static_cast<double>(share.workers), std::ceil(clients / static_cast<double>(share.cohort_batch)));
    const double training = last.numbers["training_seconds"] / parallel;
    const double steps = last.numbers["steps"] * static_cast<double>(config_.trainer.accumulate) / clients;
    const double overhead = std::max(last.numbers["seconds"] - training, 0.0);
    plan_.round_seconds = (overhead + (steps > 0 ? training * typical / steps : 0)) * plan_.asked /
                          std::max(last.numbers["clients"], 1.0);
    const std::int64_t every = config_.evaluation.every;
    const double evaluations =
        every > 0 ? std::ceil(static_cast<double>(plan_.rounds) / static_cast<double>(every)) + 1 : 1;
    plan_.seconds = plan_.setup_seconds + static_cast<double>(plan_.rounds) * plan_.round_seconds +
                    evaluations * plan_.evaluation_seconds;
    plan_.how = fmt::format("from {:.0f} real rounds of {:.0f} steps per client", rounds, steps);
  }

  /// The clients and the networks they train.
  Roster roster() const {
    const Roster all = Roster::of_sizes(sizes_);
    std::vector<RosterEntry> members(all.members().begin(), all.members().end());
    const std::vector<int>& network_of = experiment_.network_of();
    for (std::size_t c = 0; c < std::min(members.size(), network_of.size()); ++c) {
      if (network_of[c] >= 0) members[c].model = experiment_.networks()[static_cast<std::size_t>(network_of[c])].key;
    }
    return Roster(std::move(members));
  }

  /// The seconds of an ask; the cohort keeps those that replied.
  double ask_dry(Federation& federation, std::vector<ClientId>& cohort, Request request) {
    if (cohort.empty()) return 0;
    if (config_.emulation->over_selection > 1) request.enough = static_cast<std::size_t>(config_.clients_per_round);
    double seconds = 0;
    std::vector<ClientId> left;
    for (const Reply& reply : federation.ask(cohort, std::move(request))) {
      seconds = std::max(seconds, reply.cost.seconds);
      plan_.device_memory = std::max(plan_.device_memory, reply.cost.memory);
      if (reply.ok()) left.push_back(reply.client);
    }
    std::sort(left.begin(), left.end());
    cohort = std::move(left);
    return seconds;
  }

  /// The run's rounds on the emulated clock: the same cohorts, devices and random draws.
  void emulate() {
    const auto seed = static_cast<std::uint64_t>(config_.seed);
    const Fleet fleet(*config_.emulation, seed);
    DryFederation dry(roster(), batches_, down_, up_);
    double clock = 0;
    EmulatedFederation federation({.inner = dry,
                                   .fleet = fleet,
                                   .work = emulated_work(experiment_.task_model()),
                                   .network_work = emulated_work(experiment_.networks()),
                                   .clock = [&clock] { return clock; },
                                   .batches = [&](ClientId client) { return dry.batches(client); }});
    const auto selector = config_.selection.make();
    const auto algorithm = config_.algorithm.make();
    const AlgorithmTraits& traits = config_.algorithm.traits();
    const auto aggregation = config_.aggregation.make();
    const std::int64_t rounds = std::min(plan_.rounds, kMostEmulatedRounds);
    const at::Tensor model = torch::zeros({1});
    for (std::int64_t round = 1; round <= rounds; ++round) {
      SelectionContext context;
      context.sizes = sizes_;
      context.count = static_cast<std::size_t>(plan_.asked);
      context.seed = seed;
      context.round = static_cast<std::uint64_t>(round);
      context.seconds = clock;
      context.count = std::max<std::size_t>(1, std::min(context.count, selector->most(context)));
      context.losses = [](std::span<const ClientId> some) { return std::vector<double>(some.size(), 0.0); };
      std::vector<ClientId> cohort = traits.pooled ? std::vector<ClientId>{0} : selector->select(context);
      std::sort(cohort.begin(), cohort.end());
      cohort.erase(std::unique(cohort.begin(), cohort.end()), cohort.end());
      double seconds = cohort.empty() ? config_.emulation->idle_seconds : 0;
      if (traits.asynchronous) {
        std::vector<Member> members;
        for (const ClientId client : cohort) members.push_back({client, 1});
        if (!cohort.empty()) {
          const RoundInput input{federation, *aggregation, members, model, context.round, context.round, seed};
          seconds = algorithm->round(input).emulated.totals.seconds;
        }
      } else if (!asks_.empty()) {
        // The last round of the trial stands for all that follow.
        const auto own = asks_.lower_bound(context.round);
        for (const TrialAsk& ask : (own != asks_.end() ? *own : *asks_.rbegin()).second) {
          dry.follow(&ask, trial_batches_);
          seconds += ask_dry(federation, cohort, {.procedure = ask.procedure, .round = context.round});
        }
      } else {
        seconds += ask_dry(federation, cohort, {.procedure = "train", .round = context.round});
      }
      clock += seconds;
    }
    if (traits.variants) plan_.emulated_how = "with the largest variant";
    plan_.emulated_round_seconds = clock / static_cast<double>(rounds);
    plan_.emulated_seconds = *plan_.emulated_round_seconds * static_cast<double>(plan_.rounds);
  }

  const ExperimentConfig& config_;
  PlanOptions options_;
  double memory_before_;
  Clock::time_point begin_;
  Experiment experiment_;
  std::vector<double> sizes_, batches_;
  double down_ = 0, up_ = 0;  // bytes per client
  TrialAsks asks_;
  double trial_batches_ = 1;  // of each client and pass
  RunPlan plan_;
};

}  // namespace

RunPlan plan_run(const ExperimentConfig& config, const PlanOptions& options) { return Planner(config, options).plan(); }

}  // namespace chorus::inline experiment
