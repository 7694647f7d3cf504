#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline personal {

struct PerFedAvgConfig {
  enum class Hessian { kFirstOrder, kFree, kExact };
  double alpha = 0.01;               ///< learning rate of the adaptation step
  Hessian hessian = Hessian::kFree;  ///< how the second derivative is computed
  double delta = 1e-3;               ///< distance from w at which the two gradients of the difference are taken
  std::int64_t local_steps = 5;      ///< tau: steps per round
  std::int64_t adaptation = 1;       ///< adaptation steps of the own model

  void describe(ConfigVisitor& visitor);
};

/// Per-FedAvg (Fallah et al. 2020, algorithm 1): a model that is good after one step on each client's data,
///     min_w sum_k p_k F_k(w - alpha grad F_k(w)).
/// A client makes tau steps of the trainer's learning rate along its gradient, (I - alpha H_k(w)) g, where g = grad
/// F_k(w - alpha grad F_k(w)), each gradient on a separate minibatch:
///     first_order   without H (FO)
///     free          H g = |g| (grad F_k(w + delta u) - grad F_k(w - delta u)) / (2 delta), u = g / |g|, both gradients
///                   on the same minibatch with the same dropout (HF)
///     exact         H g by differentiating the gradient's graph (Learner::curvature), with LibTorch's operators in
///                   float32, because ours cannot be differentiated twice
///
/// A client's own model is w after `adaptation` steps of learning rate alpha on its data; nothing is kept, so newcomers
/// have one. Every client makes tau steps; the trainer's optimizer, epochs and steps are ignored.
class PerFedAvg : public Algorithm {
 public:
  explicit PerFedAvg(const PerFedAvgConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;

 private:
  void describe_to(Request& request) const;

  PerFedAvgConfig config_;
};

}  // namespace chorus::inline personal
