#pragma once

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

struct FedKdConfig {
  TeachingConfig teaching = {};
  bool query = false;  ///< the server also trains on its labelled query set in every round

  void describe(ConfigVisitor& visitor);
};

/// FedKD (Gong et al. 2022): one-way, one-shot distillation.
///     every client:  trains its own model on its own data;  z_k = f_k(D_0)
///     server:        zbar = sum_k w_k z_k;  minimises the mean squared error of f(D_0) and zbar
/// Nothing is sent back. The paper has one round (`rounds: 1`); further rounds continue the clients' training. Traffic
/// is |D_0| K predictions.
class FedKd : public OwnModelAlgorithm {
 public:
  explicit FedKd(const FedKdConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  bool queries() const override { return config_.query; }

 private:
  FedKdConfig config_;
};

}  // namespace chorus::inline distillation
