#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/personal/own_scores.h"
#include "application/models/activation_cache.h"
#include "apps/experiment/run_state.h"
#include "apps/experiment/server_desk.h"
#include "apps/experiment/task_model.h"
#include "core/ports/federation.h"
#include "core/ports/tracker.h"

namespace chorus::inline experiment {

/// The examples that the server scores the model on.
struct TestSet {
  const Dataset& data;  ///< borrowed
  std::shared_ptr<const EncodedDataset> encoded;
  std::vector<std::uint32_t> examples;
};

/// Draws `evaluation.examples` of the test examples, when there are more, and sorts them.
void draw_test_subset(const ExperimentConfig& config, std::vector<std::uint32_t>& examples);

/// The clients that never train, of those with so many training examples each; rising.
std::vector<ClientId> newcomers_of(const ExperimentConfig& config, std::span<const double> sizes);

/// Some rounds of a run, and who listens to them. Everything is borrowed.
struct ServerRounds {
  std::int64_t first = 1, last = 1;  ///< of this phase
  std::int64_t total = 1;            ///< of the whole run, for schedules
  std::int64_t phase = 0;            ///< its number
  Tracker& tracker;
  ActivationCache* cache = nullptr;
  std::filesystem::path folder = {};                    ///< of the run, for aggregations that keep a ledger
  bool trial = false;                                   ///< see RunRequest
  std::function<bool()> stop = {};                      ///< true: end after this round
  std::function<void(std::int64_t round)> before = {};  ///< every round; may wait for clients
  bool shrink = false;                                  ///< see RoundLoopConfig, as is the next one
  std::size_t least = 1;
  std::function<void(const RoundLoopState&, const RoundResult&)> show = {};  ///< after every round
  const TestSet* attacked = nullptr;  ///< simulation only: test examples as attackers want them answered
  std::function<std::map<std::string, double>()> numbers = {};  ///< more about the round that has just ended
  /// After every round; `last`: of this phase, so that a checkpoint is due in any case.
  std::function<void(const ServerMemory&, bool last)> save = {};
};

/// The server's half of a federation: it selects, asks, aggregates and evaluates, with its end of the filters. It has a
/// test set, and no training data: all it knows of the clients is their roster and their replies.
///
///     const ServerHalf server(model, test);
///     RunState state;
///     state.loop.model = server.start();
///     server.run(clients, {.last = 30, .total = 30, .tracker = tracker}, state);
///     server.save_model(folder, state.loop.model, state.variant);
class ServerHalf {
 public:
  /// ConfigError for a test set without examples, and for an `evaluation.metric` that the task does not have. Borrows
  /// the model.
  ServerHalf(const TaskModel& model, TestSet test, std::optional<ServerPublic> shared = {});

  const TaskModel& model() const { return model_; }
  const ExperimentConfig& config() const { return model_.config(); }
  /// The score that decides.
  const std::string& metric() const { return metric_; }
  bool higher_is_better() const;
  /// What trains, as it begins: a copy [P].
  at::Tensor start() const { return model_.params().values()[0].clone(); }

  /// Goes on from `state` to the last of these rounds, and leaves what it remembers there. ConfigError when the clients
  /// are too few.
  RoundLoopEnd run(Federation& clients, const ServerRounds& rounds, RunState& state) const;

  /// The main score of a model on other examples than the server's own.
  double score(const at::Tensor& model, const Variant& variant, const TestSet& test) const;

  /// False for methods whose clients have only models of their own: what the server holds never learns.
  bool has_model() const { return !config().algorithm.traits().personal; }
  void save_model(const std::filesystem::path& folder, const at::Tensor& values, const Variant& variant) const {
    model_.save(folder, values, variant);
  }

 private:
  RoundLoopConfig loop_config(const ServerRounds& rounds) const;
  OwnScoresPlan own_scores_plan(const RoundLoopConfig& loop, std::size_t clients) const;
  std::map<std::string, at::Tensor> on_device(std::map<std::string, at::Tensor> state) const;

  const TaskModel& model_;
  TestSet test_;
  std::optional<ServerPublic> public_;
  std::string metric_;
};

}  // namespace chorus::inline experiment
