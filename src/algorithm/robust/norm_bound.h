#pragma once

#include "algorithm/robust/robust_rule.h"

namespace chorus::inline robust {

struct NormBoundConfig {
  double bound = 0;  ///< M, L2; 0: the median norm of the round

  void describe(ConfigVisitor& visitor);
};

/// Norm bounding (Sun et al. 2019, section 4): mean_i x_i min(1, M / |x_i|). Limits what one client can do; it does not
/// remove it.
class NormBound : public RobustRule {
 public:
  explicit NormBound(const NormBoundConfig& config) : config_(config) {}

 protected:
  at::Tensor combine(Rows rows, const std::string& tensor) override;

 private:
  NormBoundConfig config_;
};

}  // namespace chorus::inline robust
