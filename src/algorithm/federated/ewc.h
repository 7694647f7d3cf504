#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

struct EwcConfig {
  double lambda = 100;  ///< weight of the penalty
  double decay = 1;     ///< of the importance of earlier segments, each time a segment ends

  void describe(ConfigVisitor& visitor);
};

/// Elastic weight consolidation at the clients (Kirkpatrick et al. 2017; online: Schwarz et al. 2018), for runs that go
/// through segments of time. While client k trains on segment s it estimates how much each parameter matters, the mean
/// of its squared minibatch gradients of its newest round (the diagonal of the empirical Fisher information), and notes
/// where its training ended, w*. In later segments its loss is
///     F_k(w) + lambda / 2 sum_i I_i (w_i - w*_i)^2
/// where I is the sum of the estimates of earlier segments, times `decay` per segment, and w* that of the last one. The
/// server averages as FedAvg does; what matters is client state, which stays with the client. In the first segment, or
/// for a client that was never asked before, it is FedAvg.
class Ewc : public Algorithm {
 public:
  explicit Ewc(const EwcConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;

 private:
  EwcConfig config_;
};

}  // namespace chorus::inline federated
