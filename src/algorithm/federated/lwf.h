#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

struct LwfConfig {
  double weight = 1;       ///< of the old model's predictions in the loss
  double temperature = 2;  ///< T

  void describe(ConfigVisitor& visitor);
};

/// Learning without forgetting at the clients (Li and Hoiem 2016), for runs that go through segments of time. Where its
/// training of a segment ended, client k keeps its model v_k. In later segments its loss is
///     F_k(w) + weight T^2 mean_x KL(softmax(z(x; v_k) / T) || softmax(z(x; w) / T))
/// over its new examples x with logits z, so that what it predicts changes little and no old example is needed. The
/// server averages as FedAvg does; the old model is client state. In the first segment, or for a client that was never
/// asked before, it is FedAvg.
class Lwf : public Algorithm {
 public:
  explicit Lwf(const LwfConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;

 private:
  LwfConfig config_;
};

}  // namespace chorus::inline federated
