#include "apps/experiment/own_model.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <set>

#include "algorithm/federated/own_models.h"
#include "apps/experiment/client_half.h"
#include "apps/experiment/experiment.h"
#include "apps/experiment/run_checkpoints.h"
#include "apps/experiment/server_half.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/files/files.h"
#include "infrastructure/tracking/compare/svg_plot.h"
#include "infrastructure/tracking/spread_text.h"

namespace chorus::inline experiment {
namespace {

/// The share of clients with a score of at most x.
std::vector<Curve> distributions(std::span<const OwnScore> scores) {
  std::vector<Curve> curves;
  for (const bool newcomers : {false, true}) {
    for (const std::string model : kComparedModels) {
      std::vector<double> values;
      for (const OwnScore& client : scores) {
        const auto found = client.scores.find(model);
        if (client.newcomer == newcomers && found != client.scores.end()) values.push_back(found->second);
      }
      std::sort(values.begin(), values.end());
      Curve curve{newcomers ? model + ", newcomers" : model, {}};
      if (!values.empty()) curve.points.emplace_back(values[0], 0);  // which also keeps the axis linear
      for (std::size_t i = 0; i < values.size(); ++i) {
        curve.points.emplace_back(values[i], static_cast<double>(i + 1) / static_cast<double>(values.size()));
      }
      if (!values.empty()) curves.push_back(std::move(curve));
    }
  }
  return curves;
}

}  // namespace

void write_own_scores(const std::filesystem::path& run, std::span<const OwnScore> scores, const std::string& metric,
                      bool higher_is_better) {
  write_file(run / "own_scores.json", own_scores_json(scores, metric, higher_is_better));
  write_file(run / "own_scores.svg", svg_plot(distributions(scores), {.title = "clients on their own test examples",
                                                                      .x_label = metric,
                                                                      .y_label = "share of the clients up to it"}));
}

std::string export_own_model(const std::filesystem::path& run, ClientId client, const std::filesystem::path& to) {
  const RunFolder folder = RunFolder::open(run);
  const auto config = ConfigDocument::read(folder.config()).load<ExperimentConfig>();
  if (!config.algorithm.traits().own_models) {
    throw ConfigError(fmt::format("{}: algorithm: {} gives clients no models of their own; they all have {}",
                                  run.string(), config.algorithm.name(), folder.model().string()));
  }
  const Experiment experiment(config);
  const TaskModel& model = experiment.task_model();
  const ServerHalf server(model, {experiment.data(), experiment.test(), experiment.shared_test()});
  RunCheckpoints checkpoints(folder, config);
  checkpoints.begin(server, experiment.data().fingerprint().hex());
  const RunState& state = checkpoints.state();
  if (state.loop.round == 0) throw DataError(fmt::format("{}: the run has no checkpoint yet", run.string()));
  const auto phase = std::min(static_cast<std::size_t>(state.phase), experiment.phases().size() - 1);
  ClientExamples examples{.data = experiment.data(), .train = experiment.train()};
  examples.test = experiment.test();
  examples.train_lists = experiment.phases()[phase].train;
  examples.test_lists = experiment.client_tests();
  if (client >= examples.train_lists.clients() || examples.train_lists.size_of(client) == 0) {
    throw ConfigError(fmt::format("{}: there is no client {} with training examples; clients are 0 to {}", run.string(),
                                  client, examples.train_lists.clients() - 1));
  }
  std::int64_t rounds = 0;
  for (const Phase& each : experiment.phases()) rounds += each.rounds;
  const ClientHalf half({.model = model,
                         .examples = std::move(examples),
                         .rounds = static_cast<std::uint64_t>(rounds),
                         .states = checkpoints.shelf(),
                         .networks = experiment.networks(),
                         .network_of = experiment.network_of()});

  const auto algorithm = config.algorithm.make();
  algorithm->prepare(model.model().layout());
  std::map<std::string, at::Tensor> kept = state.server;
  for (auto& entry : kept) {
    if (entry.second.scalar_type() == at::kFloat) entry.second = entry.second.to(model.device());
  }
  algorithm->restore(kept);
  const auto round = static_cast<std::uint64_t>(state.loop.round);
  const Request request = algorithm->ask_own_models(state.loop.model, round, {&client, 1});
  const auto procedure = Procedures::make(request.procedure);
  const auto* own = dynamic_cast<const OwnModels*>(procedure.get());
  check(own != nullptr, "this procedure makes own models");
  const auto bench = half.open(client, round);
  const at::Tensor values = own->models(request, *bench)[0];
  experiment.model_of(client).save(to, values, {});
  return fmt::format("{}: client {} of {} after round {}, own model of {}", to.string(), client, run.string(), round,
                     config.algorithm.name());
}

}  // namespace chorus::inline experiment
