#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline personal {

struct QFedAvgConfig {
  double q = 1;  ///< weight of clients with a high loss

  void describe(ConfigVisitor& visitor);
};

/// q-FedAvg (Li et al. 2020, algorithm 2) minimises sum_k F_k(w)^{q+1} / (q + 1): the larger q, the more a client with
/// a high loss counts. With L = 1 / eta, eta the mean learning rate of the client's steps, and F_k = F_k(w_t),
///     D_k = F_k^q L (w_t - w_k),    h_k = q F_k^{q-1} |L (w_t - w_k)|^2 + L F_k^q
///     w_{t+1} = w_t - sum_k D_k / sum_k h_k
/// Every client of the round counts once, regardless of `weighting`. q = 0 is FedAvg with equal weights.
class QFedAvg : public Algorithm {
 public:
  explicit QFedAvg(const QFedAvgConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;

 private:
  QFedAvgConfig config_;
};

}  // namespace chorus::inline personal
