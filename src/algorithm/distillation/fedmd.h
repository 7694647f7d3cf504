#pragma once

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

struct FedMdConfig {
  TeachingConfig teaching = {};
  std::int64_t transfer_epochs =
      0;  ///< over the public set's labels in a client's first round; needs `public.labelled`

  void describe(ConfigVisitor& visitor);
};

/// FedMD (Li and Wang 2019): clients with different networks agree on scores; the server has no model.
///     before its first predictions a client may learn the labels of the public set (transfer learning), then trains on
///     its own data; in every round
///     communicate:   z_k = f_k(D_0), the class scores before the softmax
///     aggregate:     zbar = sum_k w_k z_k (in the paper w_k = 1 / K: `weighting: equal`)
///     digest:        every client minimises the mean squared error of f_k(D_0) and zbar
///     revisit:       every client trains on its own data
class FedMd : public OwnModelAlgorithm {
 public:
  explicit FedMd(const FedMdConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;

 private:
  FedMdConfig config_;
};

}  // namespace chorus::inline distillation
