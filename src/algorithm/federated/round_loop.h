#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/selection/device_coverage.h"
#include "algorithm/selection/selector.h"
#include "core/ports/algorithm.h"
#include "core/ports/scorer.h"
#include "core/ports/tracker.h"

namespace chorus::inline federated {

/// Settings for the emulated device clock.
struct EmulatedLoop {
  double over_selection = 1;  ///< asks this many times clients_per_round; the first clients_per_round replies count
  double idle_seconds = 60;   ///< length of a round in which no client is available
};

/// Which rounds, with how many clients, and when to look how good the model is.
struct RoundLoopConfig {
  std::int64_t first_round = 1, last_round = 1;  ///< of this phase
  std::int64_t rounds = 1;                       ///< of the whole run, for schedules
  std::uint64_t phase = 0;                       ///< from 0
  std::size_t clients_per_round = 1;
  std::size_t population = 0;  ///< clients when the run began (SelectionContext)
  Weighting weighting = Weighting::kExamples;
  std::uint64_t seed = 0;

  std::int64_t evaluate_every = 1;       ///< rounds; 0: only after the last
  std::string metric = "accuracy";       ///< the main score
  bool higher_is_better = true;          ///< of it
  std::optional<double> target = {};     ///< stop as soon as the main score is as good
  std::vector<double> targets = {};      ///< what it takes to reach these is told
  bool per_client = false;               ///< clients score the model on their own test examples, too
  std::size_t evaluation_clients = 0;    ///< at most so many of them, drawn anew each time; 0: all
  std::vector<ClientId> newcomers = {};  ///< never selected nor asked to evaluate before the end, rising
  std::optional<EmulatedLoop> emulation = {};
  bool shrink = false;    ///< real clients come and go: with fewer than clients_per_round, all of them train
  std::size_t least = 1;  ///< RoundInput::least
};

/// Everything that changes while rounds go by: what a checkpoint holds.
struct RoundLoopState {
  std::int64_t round = 0;  ///< the last one that is done
  at::Tensor model = {};   ///< [P]
  at::Tensor best_model = {};
  Scores last = {}, best = {};
  std::int64_t best_round = 0;
  Variant best_variant = {};
  std::optional<std::int64_t> rounds_to_target = {};
  double examples = 0, bytes_up = 0, bytes_down = 0, seconds = 0;
  double evaluation_seconds = 0;  ///< of `seconds`; the rest is training
  EmulatedTotals emulated = {};
  std::vector<TargetReached> targets = {};        ///< those of the configuration
  std::optional<Milestone> last_evaluation = {};  ///< with a main score
  std::vector<ClientGroupScores> deciles = {};    ///< of the last evaluation by clients
};

/// What the loop works with; everything is borrowed.
struct RoundLoopParts {
  Federation& federation;
  Algorithm& algorithm;
  AlgorithmTraits traits;
  Aggregation& aggregation;
  const Selector& selector;
  Scorer& scorer;
  Tracker& tracker;
  DeviceCoverage& coverage;
  const Variants* variants = nullptr;
  const SplitDesk* split = nullptr;  ///< RoundInput::split
  /// Opens the server's own workbench for a round (RoundInput::server); empty: it has none.
  std::function<std::unique_ptr<Workbench>(std::uint64_t round)> server_bench = {};
  /// After every round; `last`: of this loop, so that a checkpoint is due in any case.
  std::function<void(const RoundLoopState&, bool last)> save = {};
  /// After every round, for a progress bar: the loss of the round, and the newest main score (NaN before the first).
  std::function<void(const RoundLoopState&, const RoundResult&)> show = {};
  std::function<bool()> stop = {};  ///< true: end after this round
  /// Before every round; may wait for clients.
  std::function<void(std::int64_t round)> before = {};
  /// More numbers about the round that has just ended, for its event (compression ratios).
  std::function<std::map<std::string, double>()> numbers = {};
};

enum class RoundLoopEnd { kFinished, kTargetReached, kStopped, kBudgetSpent };

/// The one loop of every federated run: select, let the algorithm ask, evaluate, record, save. Goes on from
/// `state.round` + 1. The same state gives the same future, bit for bit. DataError at the end where no reply could ever
/// be used.
///
///     RoundLoopEnd end = run_rounds(parts, config, state);
RoundLoopEnd run_rounds(const RoundLoopParts& parts, const RoundLoopConfig& config, RoundLoopState& state);

/// ConfigError when fewer clients (`sizes`: their training examples) can be selected than a round needs. `emulated`:
/// the run keeps an emulated clock.
void check_cohort(const Selector& selector, std::span<const double> sizes, std::size_t clients_per_round,
                  bool emulated = false);

}  // namespace chorus::inline federated
