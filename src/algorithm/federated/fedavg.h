#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

/// FedAvg (McMahan et al. 2017; Lin et al. 2022, section 2). In round t every client k of the cohort trains from the
/// global model w_t and the server takes the weighted mean:
///     w_{t+1} = w_t + sum_k p_k (w_k - w_t),   p_k = n_k / sum_j n_j
class FedAvg : public Algorithm {
 public:
  RoundResult round(const RoundInput& input) override;
};

/// "train": local training from the given model; the reply is the update.
class TrainProcedure : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override;
};

}  // namespace chorus::inline federated
