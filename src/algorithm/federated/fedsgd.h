#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

struct FedSgdConfig {
  double learning_rate = 0.1;  ///< of the server's step

  void describe(ConfigVisitor& visitor);
};

/// FedSGD (McMahan et al. 2017): every client sends the gradient over all its data, and the server makes one step per
/// round:
///     w_{t+1} = w_t - lr sum_k p_k grad F_k(w_t)
/// There is no dropout, clipping or client optimizer. Of the trainer's settings only the batch size is used: it decides
/// how much is computed at once.
class FedSgd : public Algorithm {
 public:
  explicit FedSgd(const FedSgdConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;

 private:
  FedSgdConfig config_;
};

}  // namespace chorus::inline federated
