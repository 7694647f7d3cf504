#pragma once

#include "algorithm/robust/robust_rule.h"

namespace chorus::inline robust {

struct NormBoundConfig {
  double bound = 0;  ///< M, L2; 0: the round's median norm
  MixingConfig mixing = {};

  void describe(ConfigVisitor& visitor);
};

/// Norm bounding (Sun et al. 2019, section 4): mean_i x_i min(1, M / |x_i|). It limits the influence of one client but
/// does not remove it.
class NormBound : public RobustRule {
 public:
  explicit NormBound(const NormBoundConfig& config) : RobustRule(config.mixing), config_(config) {}

 protected:
  at::Tensor combine(Rows rows, const std::string& tensor) override;

 private:
  NormBoundConfig config_;
};

}  // namespace chorus::inline robust
