#pragma once

#include "algorithm/robust/robust_rule.h"

namespace chorus::inline robust {

struct BulyanConfig {
  std::int64_t attackers = 1;  ///< f
  MixingConfig mixing = {};

  void describe(ConfigVisitor& visitor);
};

/// Bulyan over Krum (El Mhamdi et al. 2018, section 4): Krum chooses clients one by one from the remaining ones until
/// theta = n - 2f are chosen; then each element is the mean of the beta = theta - 2f chosen values nearest to their
/// median. n >= 4f + 3.
class Bulyan : public RobustRule {
 public:
  explicit Bulyan(const BulyanConfig& config) : RobustRule(config.mixing), config_(config) {}

 protected:
  std::size_t least_rows() const override { return 4 * static_cast<std::size_t>(config_.attackers) + 3; }
  at::Tensor combine(Rows rows, const std::string& tensor) override;

 private:
  BulyanConfig config_;
};

}  // namespace chorus::inline robust
