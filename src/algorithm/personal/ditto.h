#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline personal {

struct DittoConfig {
  double lambda = 0.1;      ///< pull of the own model towards the global one
  std::int64_t passes = 1;  ///< rounds of local training of the own model per round

  void describe(ConfigVisitor& visitor);
};

/// Ditto (Li et al. 2021, algorithm 1). The global model w is FedAvg's. Every client k also keeps a model v_k, which it
/// trains in each of its rounds on
///     F_k(v_k) + lambda / 2 |v_k - w_t|^2
/// with the trainer's steps, continuing from its last v_k (initially w_t). lambda = 0 is local training; a larger
/// lambda keeps v_k closer to w. Gradient steps of learning rate eta need eta lambda < 1. A newcomer trains v_k from
/// w_t once.
///
/// A round costs a client twice the computation of FedAvg and the same bytes.
class Ditto : public Algorithm {
 public:
  explicit Ditto(const DittoConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;

 private:
  void describe_to(Request& request) const;

  DittoConfig config_;
};

}  // namespace chorus::inline personal
