#pragma once

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

struct FedEdConfig {
  TeachingConfig teaching = {};
  bool query = false;      ///< the server also trains on its labelled query set in every round
  double temperature = 1;  ///< T of the soft loss

  void describe(ConfigVisitor& visitor);
};

/// FedED (Sui et al. 2020): predictions go up, weights come down.
///     every client:  starts from the server's model theta and trains on its own data;  z_k = f_k(D_0)
///     server:        zbar = sum_k w_k z_k;  minimises T^2 KL(softmax(zbar / T) || softmax(f(D_0) / T)) from theta
/// With one client and one epoch this is plain distillation of that client. All clients have the server's network.
class FedEd : public Algorithm {
 public:
  explicit FedEd(const FedEdConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  bool queries() const override { return config_.query; }

 private:
  FedEdConfig config_;
};

}  // namespace chorus::inline distillation
