#pragma once

#include "algorithm/robust/robust_rule.h"

namespace chorus::inline robust {

struct SpectralFilterConfig {
  std::int64_t attackers = 1;  ///< f
  MixingConfig mixing = {};

  void describe(ConfigVisitor& visitor);
};

/// Removes, f times, the update that lies farthest from the mean along the direction in which the remaining updates
/// differ most (their first principal component), and averages the rest. Attackers that agree on a direction stand out
/// along it, however small each of their elements is. Divide-and-conquer (Shejwalkar and Houmansadr 2021, algorithm 2)
/// removes all f at once, from random subsets of the elements; one by one also finds attackers that differ from each
/// other, such as Gaussian noise. n >= 2f + 1.
class SpectralFilter : public RobustRule {
 public:
  explicit SpectralFilter(const SpectralFilterConfig& config) : RobustRule(config.mixing), config_(config) {}

 protected:
  std::size_t least_rows() const override { return 2 * static_cast<std::size_t>(config_.attackers) + 1; }
  at::Tensor combine(Rows rows, const std::string& tensor) override;

 private:
  SpectralFilterConfig config_;
};

}  // namespace chorus::inline robust
