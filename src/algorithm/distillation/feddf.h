#pragma once

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

struct FedDfConfig {
  TeachingConfig teaching = {};
  bool query = false;      ///< the server also trains on its labelled query set in every round
  double temperature = 1;  ///< T of the soft loss

  void describe(ConfigVisitor& visitor);
};

/// FedDF (Lin et al. 2020): FedAvg whose mean model then learns from the ensemble of the clients' models.
///     every client:  trains from theta on its own data and sends its weights theta_k
///     server:        theta = sum_k w_k theta_k;  zbar = sum_k w_k f(D_0; theta_k), computed by the server;
///                    minimises T^2 KL(softmax(zbar / T) || softmax(f(D_0) / T)) from theta
/// All clients have the server's network.
class FedDf : public Algorithm {
 public:
  explicit FedDf(const FedDfConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  bool queries() const override { return config_.query; }

 private:
  FedDfConfig config_;
};

}  // namespace chorus::inline distillation
