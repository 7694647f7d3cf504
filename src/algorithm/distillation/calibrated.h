#pragma once

#include <vector>

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

struct CalibratedConfig {
  TeachingConfig teaching = {};
  double prior = 1;       ///< tau: how far a client's class frequencies are corrected; 0: not at all
  double confidence = 1;  ///< beta: how much more a confident prediction counts; 0: all count the same
  double trust = 0;       ///< gamma: how much more a client counts that agrees with the query set; 0: all the same
  bool query = true;      ///< the server also trains on its labelled query set in every round

  void describe(ConfigVisitor& visitor);
};

/// Distillation from a calibrated, confidence-weighted ensemble. Like MHAT, clients keep their own models and learn the
/// server's predictions, but the server does not learn their plain mean. With p_k = softmax(f_k(x)):
///
///     pi_k = mean of p_k over D_0,  pi = sum_k w_k pi_k
///     q_k  ~ p_k (pi / pi_k)^tau                    a client that saw few examples of a class predicts it too rarely
///                                                   (logit adjustment, Menon et al. 2021; distribution alignment,
///                                                   Berthelot et al. 2020)
///     c_k  = (1 - H(q_k) / log K)^beta              confidence: 1 for certainty, 0 for the uniform distribution
///     y    = sum_k w_k c_k q_k / sum_k w_k c_k
/// with gamma > 0 in the place of w_k:
///     L_k  = mean over D_0 of CE(r, p_k)            r: predictions of a copy of the server's model that has trained on
///     w_k exp(-gamma (L_k - min_j L_j))             the query set; of scores, L_k is the mean squared difference
///     server:        minimises CE(y, f(D_0)); then trains on its query set, as a client does on its own data
///     every client:  learns the server's predictions (soft labels)
///
/// Traffic is that of MHAT. tau = beta = 0 without query training is MHAT with soft labels.
class Calibrated : public OwnModelAlgorithm {
 public:
  explicit Calibrated(const CalibratedConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  bool queries() const override { return config_.query || config_.trust > 0; }

 private:
  CalibratedConfig config_;
};

/// A client's probabilities [N, K], or scores [N, 1], and its weight.
struct ClientAnswers {
  double weight = 1;
  at::Tensor answers;
};
/// Multiplies the weights by exp(-gamma (L_k - min_j L_j)); `reference` are r's logits [N, K] or scores [N, 1].
void weigh_by_agreement(std::vector<ClientAnswers>& clients, const at::Tensor& reference, double gamma);
/// y [N, K]; of scores, the weighted mean.
at::Tensor calibrated_mean(const std::vector<ClientAnswers>& clients, double prior, double confidence);

}  // namespace chorus::inline distillation
