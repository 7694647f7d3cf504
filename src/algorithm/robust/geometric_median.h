#pragma once

#include "algorithm/robust/robust_rule.h"

namespace chorus::inline robust {

struct GeometricMedianConfig {
  std::int64_t iterations = 100;  ///< at most
  double tolerance = 1e-5;        ///< stops when a step is shorter than this share of the median distance
  double smoothing = 1e-6;        ///< nu: smaller distances count as this
  MixingConfig mixing = {};

  void describe(ConfigVisitor& visitor);
};

/// Geometric median (RFA, Pillutla et al. 2022, algorithm 1): the v that minimises sum_i |v - x_i|, by the smoothed
/// Weiszfeld iteration v <- sum_i b_i x_i / sum_i b_i with b_i = 1 / max(nu, |v - x_i|). nu keeps it defined where v
/// meets a point. It starts at the coordinate-wise median and stops by step length, not by the objective, so a huge
/// update affects neither. Needs a majority of honest clients.
class GeometricMedian : public RobustRule {
 public:
  explicit GeometricMedian(const GeometricMedianConfig& config) : RobustRule(config.mixing), config_(config) {}

 protected:
  at::Tensor combine(Rows rows, const std::string& tensor) override;

 private:
  GeometricMedianConfig config_;
};

}  // namespace chorus::inline robust
