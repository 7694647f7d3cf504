#pragma once

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

struct CronusConfig {
  TeachingConfig teaching = {};

  void describe(ConfigVisitor& visitor) { teaching.describe(visitor); }
};

/// Cronus (Chang et al. 2019): robust knowledge transfer between clients; the server has no model.
///     every client:  trains its own model on its own data;  p_k = softmax(f_k(D_0))
///     server:        p = a robust mean of the p_k: `aggregation` median, trimmed_mean, geometric_median, krum, ...
///     every client:  its model learns p (cross-entropy with the soft labels)
/// A client trains on its own data and on the pseudo-labelled public set in every round, one after the other; the paper
/// mixes their batches.
class Cronus : public OwnModelAlgorithm {
 public:
  explicit Cronus(const CronusConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;

 private:
  CronusConfig config_;
};

}  // namespace chorus::inline distillation
