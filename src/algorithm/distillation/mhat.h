#pragma once

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

struct MhatConfig {
  TeachingConfig teaching = {};
  bool query = false;             ///< the server also trains on its labelled query set in every round
  Lesson lesson = Lesson::kHard;  ///< hard: as in the code of Ma et al. 2023

  void describe(ConfigVisitor& visitor);
};

/// MHAT (Hu et al. 2021): the server learns from all clients at once instead of from their mean.
///     every client:  trains its own model on its own data;  z_k = f_k(D_0)
///     server:        minimises sum_k w_k CE(y_k, f(D_0)),  y_k = onehot(argmax z_k), or softmax(z_k) with soft labels;
///                    its own predictions f(D_0) go to the clients
///     every client:  its model learns them (CE with the argmax, or with the probabilities)
/// CE is linear in y, so the server's loss is CE(sum_k w_k y_k, f): the mean of the votes is sufficient. Clients send
/// y_k, and the round's aggregation computes the mean; with a secure sum the server sees no client's predictions.
class Mhat : public OwnModelAlgorithm {
 public:
  explicit Mhat(const MhatConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  bool queries() const override { return config_.query; }

 private:
  MhatConfig config_;
};

/// A client's vote: one-hot rows of the argmax of its logits [n, K], or their probabilities. A regression score is
/// unchanged.
at::Tensor votes_of(const at::Tensor& logits, Lesson lesson);

/// Epochs of cross-entropy with votes [N, K] for the server's model, in place. Returns the mean loss.
double teach_votes(const RoundInput& input, const at::Tensor& votes, const PublicOrder& order,
                   const TeachingConfig& teaching);

}  // namespace chorus::inline distillation
