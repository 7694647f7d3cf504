#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

struct FedProxConfig {
  double mu = 0.5;  ///< weight of the proximal term; 0 is FedAvg (FedNLP tries 1, 0.5, 0.1, 0.01 and 0.001)

  void describe(ConfigVisitor& visitor);
};

/// FedProx (Li et al. 2020; Lin et al. 2022, section 2): FedAvg whose clients minimise
///     F_k(w) + mu / 2 |w - w_t|^2
/// The term enters as its gradient, mu (w - w_t), before clipping.
class FedProx : public Algorithm {
 public:
  explicit FedProx(const FedProxConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;

 private:
  FedProxConfig config_;
};

}  // namespace chorus::inline federated
