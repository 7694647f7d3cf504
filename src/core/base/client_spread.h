#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/client_id.h"

namespace chorus::inline base {

/// The main score of each of several models on one client's own test examples.
struct OwnScore {
  ClientId client = 0;
  bool newcomer = false;                      ///< never trained (cold start)
  double examples = 0;                        ///< training examples
  std::map<std::string, double> scores = {};  ///< by model; missing if it has no score
};

/// The models that are compared, in the order of reports.
///     global       the run's model, if it is useful alone
///     fine-tuned   the global model after local training: the baseline of personalization
///     own          what the algorithm gives each client
///     alone        local training from the start, without other clients
inline constexpr const char* kComparedModels[] = {"global", "fine-tuned", "own", "alone"};

/// The spread of one model's scores over clients: every client counts once, however many examples it has.
struct ClientSpread {
  std::string model = {};
  bool newcomers = false;  ///< over clients that never trained; else over the others
  std::int64_t clients = 0;
  double mean = 0, deviation = 0;          ///< population: divided by n
  double worst_tenth = 0, best_tenth = 0;  ///< mean of the worst (best) tenth of the clients, at least one
  double jain = 0;                         ///< fairness: (sum x)^2 / (n sum x^2), 1 when all are equal
  /// Against the global model, over the clients that have both: mean gain (positive is better), share that gains.
  std::optional<double> gain = {}, gaining = {};
};

/// For every compared model with scores: first over the clients that trained, then over newcomers.
std::vector<ClientSpread> spreads_of(std::span<const OwnScore> scores, bool higher_is_better);

}  // namespace chorus::inline base
