#include "apps/experiment/server_half.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "algorithm/compression/filtered_federation.h"
#include "algorithm/distillation/teaching.h"
#include "application/trainer/split_training.h"
#include "apps/experiment/task_scorer.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/console/log.h"

namespace chorus::inline experiment {
namespace {

void check_metric(const Task& task, const std::string& metric) {
  Scores scores = task.metric()->scores();
  scores["eval_loss"] = 0;
  if (metric == "auto" || scores.contains(metric)) return;
  std::string names;
  for (const auto& entry : scores) names += (names.empty() ? "" : ", ") + entry.first;
  throw ConfigError(fmt::format("evaluation.metric: this task has no score \"{}\"; it has {}", metric, names));
}

// A filter for predictions (Filter::answer_size) must know how many logits the network gives.
void check_filters(const ExperimentConfig& config, const std::function<std::int64_t()>& outputs) {
  const auto& [up, down] = config.compression;
  for (const auto& [direction, filters] : {std::pair("up", &up), std::pair("down", &down)}) {
    for (const Choice<Filters>& choice : *filters) {
      const std::int64_t wanted = choice.make()->answer_size();
      if (wanted == 0) continue;
      if (const std::int64_t size = outputs(); size != wanted) {
        throw ConfigError(fmt::format(
            "compression.{}: {}: classes is {}, but the network's predictions have {} logits each; set classes: {}",
            direction, choice.name(), wanted, size, size));
      }
    }
  }
}

}  // namespace

void draw_test_subset(const ExperimentConfig& config, std::vector<std::uint32_t>& examples) {
  if (const auto most = static_cast<std::size_t>(config.evaluation.examples); most > 0 && most < examples.size()) {
    RandomStream stream({.seed = static_cast<std::uint64_t>(config.seed), .purpose = "test subset"});
    stream.shuffle(std::span(examples));
    examples.resize(most);
  }
  std::sort(examples.begin(), examples.end());
}

std::vector<ClientId> newcomers_of(const ExperimentConfig& config, std::span<const double> sizes) {
  if (!config.evaluation.personal || config.algorithm.traits().pooled) return {};
  return draw_newcomers(sizes, config.evaluation.personal->newcomers, static_cast<std::uint64_t>(config.seed));
}

ServerHalf::ServerHalf(const TaskModel& model, TestSet test, std::optional<ServerPublic> shared)
    : model_(model), test_(std::move(test)), public_(std::move(shared)) {
  if (test_.examples.empty()) throw ConfigError("the server has nothing to test on: give data.test");
  check_metric(model.task(), config().evaluation.metric);
  metric_ = config().evaluation.metric == "auto" ? model.task().main_score().name : config().evaluation.metric;
  if (public_) check_filters(config(), [&] { return answer_shape(*ServerDesk(model, *public_, 1).open(1)).size; });
}

bool ServerHalf::higher_is_better() const { return chorus::higher_is_better(model_.task(), metric_); }

double ServerHalf::score(const at::Tensor& model, const Variant& variant, const TestSet& test) const {
  const TunedNetwork::Part part = model_.network().part(variant);
  Params params = Params::copies_of_start(part.params, 1, false, model_.network().take(variant, model));
  if (config().trainer.precision == TrainerConfig::Precision::kBFloat16) params = params.with_shadow();
  EvaluateOptions options;
  options.seed = model_.seed();
  options.workers = static_cast<int>(config().federation.workers);
  return evaluate(model_.task(), part.model, params, {test.data, test.encoded, test.examples}, options)
      .scores.at(metric_);
}

// Checkpoints come back on the CPU; server state is where the model is.
std::map<std::string, at::Tensor> ServerHalf::on_device(std::map<std::string, at::Tensor> state) const {
  for (auto& entry : state) {
    if (entry.second.scalar_type() == at::kFloat) entry.second = entry.second.to(model_.device());
  }
  return state;
}

RoundLoopEnd ServerHalf::run(Federation& clients, const ServerRounds& rounds, RunState& state) const {
  // Without filters it passes everything on as it is.
  FilteredFederation federation(model_.filters(), clients);
  federation.restore(std::exchange(state.filters, {}));
  const AlgorithmTraits& traits = config().algorithm.traits();
  const auto algorithm = config().algorithm.make();
  algorithm->prepare(model_.model().layout());
  algorithm->restore(on_device(std::exchange(state.server, {})));
  const auto aggregation = config().aggregation.make();
  aggregation->restore(on_device(std::exchange(state.aggregation, {})));
  RoundLoopConfig loop = loop_config(rounds);
  const Roster roster = federation.roster();  // a copy: real clients come and go
  loop.newcomers = newcomers_of(config(), roster.sizes());
  loop.population = roster.trainable() - loop.newcomers.size();
  std::optional<ServerDesk> desk;
  if (public_ && traits.distills) desk.emplace(model_, *public_, static_cast<std::uint64_t>(rounds.total));
  const bool sums_predictions = desk && traits.predictions_up && traits.one_sum;
  aggregation->prepare(
      {.folder = rounds.folder,
       .clients = static_cast<double>(loop.population),
       .clients_per_round = static_cast<double>(config().clients_per_round),
       .rounds = rounds.total,
       .ledger = mark_of(state.ledgers, "privacy.ledger"),
       .trial = rounds.trial,
       .size = sums_predictions ? answer_shape(*desk->open(1)).elements() : model_.model().layout().trainable_size(),
       .layout = sums_predictions ? nullptr : &model_.model().layout()});
  const auto selector = config().selection.make();
  std::optional<EvaluationSet> attacked;
  if (rounds.attacked != nullptr) {
    attacked.emplace(EvaluationSet{rounds.attacked->data, rounds.attacked->encoded, rounds.attacked->examples});
  }
  TaskScorer scorer({model_.task(),
                     model_.network(),
                     {test_.data, test_.encoded, test_.examples},
                     federation,
                     model_.seed(),
                     rounds.cache,
                     config().trainer.precision,
                     static_cast<int>(config().federation.workers),
                     attacked ? &*attacked : nullptr});
  DeviceCoverage coverage(federation.roster().sizes());
  if (rounds.shrink && !state.coverage.empty()) {
    // Clients have joined, or have not come back yet.
    const std::size_t most = std::max(state.coverage.size(), federation.roster().sizes().size());
    state.coverage.resize(most, 0);
    std::vector<double> sizes(federation.roster().sizes().begin(), federation.roster().sizes().end());
    sizes.resize(most, 0.0);
    coverage = DeviceCoverage(sizes);
  }
  if (!state.coverage.empty()) coverage.restore(state.coverage, state.coverage_rounds);

  const ServerMemory memory{*algorithm, *aggregation, coverage, federation.state()};
  RoundLoopParts parts{federation, *algorithm, traits, *aggregation, *selector, scorer, rounds.tracker, coverage};
  parts.variants = &model_.network();
  const SplitTrainingDesk split({model_.task(), model_.model(), model_.params()}, config().trainer, model_.seed(),
                                static_cast<std::uint64_t>(rounds.total));
  if (traits.splits) {
    parts.split = &split;
    algorithm->prepare_split(split);
  }
  if (desk) parts.server_bench = [&desk](std::uint64_t round) { return desk->open(round); };
  parts.stop = rounds.stop;
  parts.before = rounds.before;
  parts.show = rounds.show;
  if (rounds.save) parts.save = [&](const RoundLoopState&, bool last) { rounds.save(memory, last); };
  parts.numbers = [&] {
    std::map<std::string, double> numbers = federation.numbers();
    if (rounds.numbers) numbers.merge(rounds.numbers());
    return numbers;
  };
  const RoundLoopEnd end = run_rounds(parts, loop, state.loop);
  const bool over = end != RoundLoopEnd::kStopped && (end != RoundLoopEnd::kFinished || rounds.last == rounds.total);
  const bool scored = over && !rounds.trial && !traits.pooled && (traits.own_models || config().evaluation.personal);
  if (scored && config().aggregation.traits().masked) {
    Log("run").info("the clients' own models are not scored: aggregation: {} hides what single clients have",
                    config().aggregation.name());
  } else if (scored) {
    OwnScoresInput input{federation,    *algorithm,       traits,
                         scorer,        state.loop.model, static_cast<std::uint64_t>(state.loop.round),
                         parts.variants};
    state.own_scores = own_scores(input, own_scores_plan(loop, federation.roster().trainable()));
  }
  remember(memory, state);
  state.privacy = aggregation->privacy();
  if (state.privacy) state.privacy = except_own_models(*std::move(state.privacy), traits);
  Log("run").info("{}", coverage.text());
  return end;
}

OwnScoresPlan ServerHalf::own_scores_plan(const RoundLoopConfig& loop, std::size_t clients) const {
  OwnScoresPlan plan;
  plan.metric = metric_;
  plan.clients = loop.evaluation_clients;
  plan.newcomers = loop.newcomers;
  plan.seed = loop.seed;
  if (!config().evaluation.personal) return plan;
  const PersonalEvaluationConfig& personal = *config().evaluation.personal;
  plan.fine_tuning = personal.fine_tuning;
  if (!personal.alone) return plan;
  const auto asked = static_cast<double>(loop.rounds) * static_cast<double>(loop.clients_per_round);
  const double each = std::ceil(asked / static_cast<double>(std::max<std::size_t>(clients - loop.newcomers.size(), 1)));
  plan.alone = personal.alone_passes > 0 ? personal.alone_passes : static_cast<std::int64_t>(std::max(each, 1.0));
  return plan;
}

RoundLoopConfig ServerHalf::loop_config(const ServerRounds& rounds) const {
  const EvaluationConfig& evaluation = config().evaluation;
  RoundLoopConfig loop;
  loop.first_round = rounds.first;
  loop.last_round = rounds.last;
  loop.rounds = rounds.total;
  loop.phase = static_cast<std::uint64_t>(rounds.phase);
  loop.clients_per_round = static_cast<std::size_t>(config().clients_per_round);
  loop.weighting = config().weighting;
  loop.seed = model_.seed();
  loop.shrink = rounds.shrink;
  loop.least = rounds.least;
  loop.evaluate_every = evaluation.every;
  loop.metric = metric_;
  loop.higher_is_better = higher_is_better();
  loop.target = evaluation.target;
  loop.per_client = evaluation.per_client;
  loop.evaluation_clients = static_cast<std::size_t>(evaluation.clients);
  loop.targets = evaluation.targets;
  if (config().emulation) {
    loop.emulation = EmulatedLoop{config().emulation->over_selection, config().emulation->idle_seconds};
  }
  if (config().algorithm.traits().pooled) {
    loop.clients_per_round = 1;
    if (loop.emulation) loop.emulation->over_selection = 1;
  }
  return loop;
}

}  // namespace chorus::inline experiment
