#pragma once

#include <map>
#include <string>

#include "algorithm/robust/robust_rule.h"

namespace chorus::inline robust {

struct CentredClippingConfig {
  double radius = 0;            ///< tau; 0: the median distance to the centre
  std::int64_t iterations = 3;  ///< per round
  MixingConfig mixing = {};

  void describe(ConfigVisitor& visitor);
};

/// Centred clipping (Karimireddy et al. 2021, algorithm 2): v <- v + mean_i (x_i - v) min(1, tau / |x_i - v|), starting
/// from the result of the last round (0 before the first). An attacker can move the result by tau / n per iteration.
/// Checkpoints keep the results; one of another size is discarded.
class CentredClipping : public RobustRule {
 public:
  explicit CentredClipping(const CentredClippingConfig& config) : RobustRule(config.mixing), config_(config) {}

  std::map<std::string, at::Tensor> state() const override { return centres_; }
  void restore(const std::map<std::string, at::Tensor>& state) override { centres_ = state; }

 protected:
  at::Tensor combine(Rows rows, const std::string& tensor) override;

 private:
  CentredClippingConfig config_;
  std::map<std::string, at::Tensor> centres_;  // by aggregated tensor
};

}  // namespace chorus::inline robust
