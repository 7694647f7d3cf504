#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/privacy_report.h"
#include "core/config/registry.h"
#include "core/ports/federation.h"
#include "core/tensor/layout.h"

namespace chorus::inline ports {

/// What a client's update counts for in an average.
enum class Weighting { kExamples, kBatches, kEqual };

/// A client of this round, and how often it was drawn (more than once only with replacement).
struct Member {
  ClientId client = 0;
  double times = 1;
};

/// A tensor of the replies that is aggregated over the cohort.
struct AggregatedTensor {
  std::string name = "update";
  bool equal = false;  ///< every client counts once, whatever the round's weighting
};

/// The cohort to ask, and the tensors to aggregate.
struct AggregationInput {
  Federation& federation;
  std::span<const Member> cohort;  ///< in the order in which it is asked
  Request request;
  std::vector<AggregatedTensor> tensors = {{}};
  std::int64_t size = 0;         ///< elements of each tensor
  at::Device device = at::kCPU;  ///< where they are summed
  Weighting weighting = Weighting::kExamples;
  std::uint64_t seed = 0;  ///< of the run, for rules that draw
  /// Sees, and may change, each client's reply before it is aggregated; the weight is the one in the sum. Only where
  /// the aggregation shows individual updates. A DataError from it fails that client.
  std::function<void(Reply& reply, double weight)> look = {};
};

/// What a client did, for reports. Everything is 0 for one that failed.
struct ClientReport {
  std::string failure = {};  ///< empty: its update was used
  bool left_out = false;     ///< by the emulation
  double weight = 0, examples = 0, steps = 0, loss = 0, seconds = 0;
  Cost cost = {};
};

struct Aggregated {
  std::vector<at::Tensor> means;               ///< one per tensor asked for; undefined when no update could be used
  std::vector<ClientReport> clients;           ///< one per member of the cohort
  std::map<std::string, double> numbers = {};  ///< about this round, for its event
};

/// The run that an aggregation works for.
struct AggregationSetting {
  std::filesystem::path folder;  ///< of the run
  double clients = 0;            ///< with training data
  double clients_per_round = 0;
  std::int64_t rounds = 0;         ///< of the whole run
  std::string ledger = {};         ///< Aggregation::ledger, in a run that goes on
  bool trial = false;              ///< its results are thrown away, and nobody sees them
  std::int64_t size = 0;           ///< elements of what is aggregated: updates or predictions
  const Layout* layout = nullptr;  ///< of updates; borrowed; null: predictions are aggregated
};

/// What clients of a masked aggregation hold the server to: what follows from the whole run and not from a setting.
struct SumFloor {
  std::size_t clients = 0;  ///< fewest in a sum that is revealed
  std::size_t rare = 0;     ///< rows of word tables that fewer clients changed are left out
  double noise = 0;         ///< least deviation of the clients' noise in a sum / sensitivity; 0: not known, or none
  std::size_t honest = 0;   ///< most clients that it is divided among
};

/// Asks a cohort and combines its updates into one: by a weighted mean, or by a secure, robust or noisy sum. An
/// algorithm calls it through `collect` and sees only means.
///
///     aggregation: mean                # in a configuration
///
/// A reply that does not fit (wrong size or device, values that are not finite, impossible counts) fails that client
/// only. Replies that are used are accepted (Reply::accept).
class Aggregation {
 public:
  static constexpr std::string_view kKind = "aggregation";
  struct Traits {
    bool shows_updates = true;  ///< `look` is called; false: only sums leave it (secure aggregation)
    bool is_mean = true;        ///< the result is the weighted mean up to rounding
    bool noisy_sum = false;     ///< bounds what one client changes: equal weights, Poisson sampling, one sum per round
    bool masked = false;        ///< updates travel under masks: nothing on the way may change or read them
    bool separated = false;     ///< the same without sampling: selection: separated, with the same separation
  };
  virtual ~Aggregation() = default;

  /// Before the first round of this process.
  virtual void prepare(const AggregationSetting&) {}
  /// Whether `aggregate` must be called for an empty cohort, too.
  virtual bool answers_for_nobody() const { return false; }
  /// Whether another round would exceed a budget; then the run ends.
  virtual bool exhausted() { return false; }
  virtual std::optional<PrivacyReport> privacy() const { return std::nullopt; }
  /// The mark of its privacy ledger, for checkpoints; empty: it has none.
  virtual std::string ledger() const { return ""; }

  virtual Aggregated aggregate(AggregationInput input) = 0;

  /// Fewest usable updates it can combine, by its configuration; with fewer the model stays as it is.
  virtual std::size_t least_updates() const { return 1; }
  /// Whether updates really travel under masks, so that a simulation cannot change them on their way.
  virtual bool masks() const { return false; }
  virtual SumFloor sum_floor(const AggregationSetting&) const { return {.clients = least_updates()}; }
  /// Why it cannot work with so many clients per round and these weights, or "". Asked when a configuration is read.
  virtual std::string refusal(std::size_t /*clients_per_round*/, Weighting) const { return ""; }

  /// Everything remembered between rounds, for checkpoints.
  virtual std::map<std::string, at::Tensor> state() const { return {}; }
  virtual void restore(const std::map<std::string, at::Tensor>&) {}
};

using Aggregations = Registry<Aggregation>;

}  // namespace chorus::inline ports
