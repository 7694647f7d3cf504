#pragma once

#include "application/optim/optimizer.h"

namespace chorus::inline optim {

struct SgdConfig {
  double momentum = 0;    ///< 0: plain gradient descent
  bool nesterov = false;  ///< Nesterov's look-ahead

  void describe(ConfigVisitor& visitor);
};

/// Gradient descent, as PyTorch's: g += weight_decay * w,  b = momentum * b + g (b = g at first),  w -= lr * b, or
/// lr * (g + momentum * b) with Nesterov's look-ahead.
class Sgd : public Optimizer {
 public:
  Sgd(const SgdConfig& config, const OptimizerInput& input);
  /// With momentum rho, tau steps have the length of [tau - rho (1 - rho^tau) / (1 - rho)] / (1 - rho) gradients (Wang
  /// et al. 2020).
  double reach(double steps) const override;

 private:
  void update(const Rows& rows) override;
  static void go_down(const Rows& rows, const at::Tensor& direction);
  bool fused(const at::Tensor& /*values*/) const override { return true; }

  SgdConfig config_;
  at::Tensor momentum_;  // [C, P]
};

}  // namespace chorus::inline optim
