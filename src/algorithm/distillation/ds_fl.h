#pragma once

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

struct DsFlConfig {
  TeachingConfig teaching = {};
  double temperature = 0.1;       ///< T of the entropy reduction; below 1 it sharpens
  Lesson lesson = Lesson::kHard;  ///< hard: as the code of Ma et al. 2023 has it

  void describe(ConfigVisitor& visitor);
};

/// DS-FL (Itahara et al. 2021): semi-supervised learning from the clients' mean prediction, whose entropy is reduced.
/// On the public set D_0, with w_k the clients' weights:
///     every client:  trains its own model on its own data;  z_k = f_k(D_0)
///     server:        zbar = sum_k w_k z_k;  y = softmax(zbar / T)
///                    its model learns y;  y goes to the clients
///     every client:  its model learns y
/// "Learns" is cross-entropy with the argmax of y (hard: T has no effect) or with y itself (soft). Traffic is
/// |D_0| (K + 1) predictions per round where the broadcast counts once (Ma et al. 2023, table 5).
class DsFl : public OwnModelAlgorithm {
 public:
  explicit DsFl(const DsFlConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;

 private:
  DsFlConfig config_;
};

}  // namespace chorus::inline distillation
