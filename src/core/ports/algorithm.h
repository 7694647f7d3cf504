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
#include "core/ports/federation.h"
#include "core/ports/variants.h"

namespace chorus {

/// What a client's update counts for in an average.
enum class Weighting { kExamples, kBatches, kEqual };

/// A client of this round, and how often it was drawn (more than once only with replacement).
struct Member {
  ClientId client = 0;
  double times = 1;
};

/// One round, as the server sees it.
struct RoundInput {
  Federation& federation;
  std::span<const Member> cohort;
  at::Tensor model;  ///< [P]; the algorithm replaces its numbers in place
  std::uint64_t round = 0;
  std::uint64_t rounds = 0;  ///< of the whole run, for schedules
  Weighting weighting = Weighting::kExamples;
  /// Smaller versions of what trains; null where there are none.
  const Variants* variants = nullptr;
  /// The main score of the model at a variant on the server's test examples; higher is better.
  std::function<double(const at::Tensor& model, const Variant& variant)> judge = {};
};

/// A round on the clients' own devices (DESIGN, idea 6); all zero where nobody emulates.
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
  std::map<std::string, double> numbers;                 ///< what the algorithm itself wants to tell
  EmulatedRound emulated = {};
};

/// The server half of a federated method: asks, and updates the model. Both halves stand in one file pair, with the
/// equations and the paper in the header. Adding one is that pair and one Registration.
///
/// A client that fails is left out of the round; when all fail the model stays as it is.
class Algorithm {
 public:
  static constexpr std::string_view kKind = "algorithm";
  virtual ~Algorithm() = default;

  virtual RoundResult round(const RoundInput& input) = 0;

  /// Everything remembered between rounds, for checkpoints; tensors may be shared with the algorithm.
  virtual std::map<std::string, at::Tensor> state() const { return {}; }
  virtual void restore(const std::map<std::string, at::Tensor>& state) {
    check(state.empty(), "this algorithm remembers nothing, yet a checkpoint has something for it");
  }

  /// Which version of the model is the one to use now; of what is outside it nothing is evaluated or saved.
  virtual Variant variant() const { return {}; }

  /// It asks clients about versions of the model, so that the tuning must have some.
  virtual bool needs_variants() const { return false; }
  /// It measures by the emulated clock.
  virtual bool needs_clock() const { return false; }

  /// Whose data a client of this method is.
  enum class Population {
    kClients,  ///< the partition's clients
    kPooled    ///< everybody's data in one place: the bound that privacy forbids
  };
  virtual Population population() const { return Population::kClients; }
  /// No global model comes of it: every client keeps its own (local-only training), and evaluation asks the clients.
  virtual bool personal() const { return false; }
  /// Its equations hold only where clients make plain gradient steps: SGD without momentum, clipping or weight decay.
  virtual bool needs_plain_sgd() const { return false; }
  /// Its rounds do not wait for those that were asked (FedBuff), so that asking more than needed makes no sense.
  virtual bool asynchronous() const { return false; }
};

using Algorithms = Registry<Algorithm>;

}  // namespace chorus
