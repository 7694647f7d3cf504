#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/registry.h"
#include "core/ports/aggregation.h"
#include "core/ports/federation.h"
#include "core/ports/split.h"
#include "core/ports/variants.h"
#include "core/ports/workbench.h"
#include "core/tensor/layout.h"

namespace chorus::inline ports {

/// One round, as the server sees it.
struct RoundInput {
  Federation& federation;
  Aggregation& aggregation;
  std::span<const Member> cohort;
  at::Tensor model;  ///< [P]; the algorithm changes its values in place
  std::uint64_t round = 0;
  std::uint64_t rounds = 0;  ///< of the whole run, for schedules
  std::uint64_t seed = 0;    ///< of the run: every draw of the algorithm is keyed by it
  Weighting weighting = Weighting::kExamples;
  std::size_t enough = 0;   ///< of the cohort, how many replies are enough; 0: all
  std::size_t least = 1;    ///< updates that a step needs; for algorithms whose requests have no quorum (background)
  std::uint64_t phase = 0;  ///< segment of time that the clients' data is of, where the run has several
  /// Smaller versions of what trains; null where there are none.
  const Variants* variants = nullptr;
  /// The main score of the model at a variant on the server's test examples; higher is better.
  std::function<double(const at::Tensor& model, const Variant& variant)> judge = {};
  /// The server's own workbench, C = 1, with the public set of the clients and, as its own examples, the labelled query
  /// set; null without public data.
  Workbench* server = nullptr;
  /// The server's part of a network that is cut in two; null unless AlgorithmTraits::splits.
  const SplitDesk* split = nullptr;
};

/// A round on the clients' own devices; all zero without emulation.
struct EmulatedRound {
  EmulatedTotals totals = {};           ///< of this round alone
  std::vector<ClientId> left_out = {};  ///< of RoundResult::failed, those that the emulation left out
};

struct RoundResult {
  double examples = 0;  ///< trained on
  double steps = 0;
  double seconds = 0;                                    ///< clients spent training, all together
  double loss = 0;                                       ///< mean training loss, by the same weights
  std::vector<std::pair<ClientId, std::string>> failed;  ///< and why
  std::map<std::string, double> numbers;                 ///< what the algorithm itself reports
  EmulatedRound emulated = {};
};

/// The needs of a method, declared with its registration: impossible configurations are refused when they are read
/// (apps/experiment/compatibility.h), without making an instance.
struct AlgorithmTraits {
  bool individual_updates = false;  ///< looks at single updates, so sums alone are not enough
  bool own_mean = false;            ///< averages by itself, so no other aggregation can take its place
  bool variants = false;            ///< asks clients about versions of the model: the tuning must have some
  bool sub_networks = false;        ///< asks clients about smaller networks: everything of the network must train
  bool clock = false;               ///< measures by the emulated clock
  bool pooled = false;              ///< trains on the pooled data: an upper bound without privacy
  bool personal = false;            ///< no global model: every client keeps its own, and evaluation asks the clients
  bool own_models = false;          ///< every client has a model of its own beside or instead of the global one
  bool partial = false;             ///< the global model alone is of no use, so the main score is of the own models
  bool plain_sgd = false;           ///< equations hold for plain gradient steps only: no momentum, clipping or decay
  bool asynchronous = false;        ///< rounds do not wait for everybody asked, so over-selection makes no sense
  bool distills = false;            ///< learns from predictions on the public set: `public` must be given
  bool predictions_up = false;      ///< clients send predictions of the public set
  bool predictions_down = false;    ///< the server sends predictions of the public set
  bool any_network = false;         ///< clients may have networks other than the server's: no weights travel
  bool splits = false;              ///< the server trains a part of the network on the clients' activations
  bool one_sum = false;             ///< asks the whole cohort once per round, and uses only the mean of one tensor
  bool stateless = false;           ///< its clients keep nothing between rounds: any process may train any of them
};

/// The server half of a federated method: asks clients and updates the model. Both halves are in one file pair, with
/// the equations and the paper in the header. Adding one is that pair and one Registration.
///
/// A client that fails is left out of the round; when all fail the model stays as it is.
class Algorithm {
 public:
  static constexpr std::string_view kKind = "algorithm";
  using Traits = AlgorithmTraits;
  virtual ~Algorithm() = default;

  /// Before the first round: what trains. ConfigError for settings that do not fit it.
  virtual void prepare(const Layout&) {}

  /// Before the first round, if AlgorithmTraits::splits. ConfigError where the network cannot be cut.
  virtual void prepare_split(const SplitDesk&) {}

  virtual RoundResult round(const RoundInput& input) = 0;

  /// Asks each of these clients to score its own model on its own test examples (AlgorithmTraits::own_models).
  virtual Request ask_own_models(const at::Tensor& /*model*/, std::uint64_t /*round*/,
                                 std::span<const ClientId> /*clients*/) const {
    throw InternalError("clients of this algorithm have no models of their own");
  }

  /// Everything remembered between rounds, for checkpoints; tensors may be shared with the algorithm.
  virtual std::map<std::string, at::Tensor> state() const { return {}; }
  /// Floating-point tensors are on the model's device.
  virtual void restore(const std::map<std::string, at::Tensor>& state) {
    check(state.empty(), "this algorithm remembers nothing, yet a checkpoint has something for it");
  }

  /// Whether it needs the server's labelled query set, with these settings. Asked when a configuration is read.
  virtual bool queries() const { return false; }

  /// The version of the model to use now; nothing outside it is evaluated or saved.
  virtual Variant variant() const { return {}; }
};

using Algorithms = Registry<Algorithm>;

}  // namespace chorus::inline ports
