#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

/// FedNova (Wang et al. 2020): where clients make different numbers of steps, FedAvg drifts towards those that make
/// most. Every update is divided by the length of its accumulated steps, |a_k|_1 (the number of steps; with momentum
/// rho, [tau - rho (1 - rho^tau) / (1 - rho)] / (1 - rho)), and the mean is scaled back:
///     w_{t+1} = w_t + (sum_k p_k |a_k|_1) sum_k p_k (w_k - w_t) / |a_k|_1
/// With equal steps it is FedAvg. For AdamW and Adafactor, |a_k|_1 is taken as the number of steps.
class FedNova : public Algorithm {
 public:
  RoundResult round(const RoundInput& input) override;
};

}  // namespace chorus::inline federated
