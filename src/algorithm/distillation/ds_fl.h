#pragma once

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

struct DsFlConfig {
  TeachingConfig teaching = {};
  bool query = false;             ///< the server also trains on its labelled query set in every round
  double temperature = 0.1;       ///< T of the entropy reduction; below 1 it sharpens
  Lesson lesson = Lesson::kHard;  ///< hard: as in the code of Ma et al. 2023
  Sent sent = Sent::kLogits;  ///< logits: as in the code of Ma et al. 2023; probabilities: as in Itahara et al. 2021

  void describe(ConfigVisitor& visitor);
};

/// DS-FL (Itahara et al. 2021): semi-supervised learning from the clients' mean prediction with reduced entropy. On the
/// public set D_0, with w_k the clients' weights:
///     every client:  trains its own model on its own data;  z_k = f_k(D_0)
///     server:        zbar = sum_k w_k z_k;  y = softmax(zbar / T)
///                    its model learns y;  y goes to the clients
///     every client:  its model learns y
/// `send` replaces z_k by its probabilities or by votes. Votes with hard labels and the aggregation private_mean, whose
/// clip is the votes' norm sqrt(|D_0|), are PATE with Gaussian noise (Papernot et al. 2018): the clients are the
/// teachers, and labels are the classes with most noisy votes.
///
/// "Learns" is cross-entropy with the argmax of y (hard: T has no effect) or with y itself (soft). Traffic is
/// |D_0| (K + 1) predictions per round where the broadcast counts once (Ma et al. 2023, table 5).
class DsFl : public OwnModelAlgorithm {
 public:
  explicit DsFl(const DsFlConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  bool queries() const override { return config_.query; }

 private:
  DsFlConfig config_;
};

}  // namespace chorus::inline distillation
