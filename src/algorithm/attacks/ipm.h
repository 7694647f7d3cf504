#pragma once

#include "algorithm/attacks/attack.h"

namespace chorus::inline attacks {

struct IpmConfig {
  double epsilon = 0.5;

  void describe(ConfigVisitor& visitor);
};

/// Inner product manipulation (Xie et al. 2020): the attackers know every honest update and send -epsilon times their
/// mean. A small epsilon hides among honest updates; a large one reverses the mean.
class Ipm : public Attack {
 public:
  explicit Ipm(const IpmConfig& config) : config_(config) {}
  std::vector<at::Tensor> corrupt(const AttackInput& input) const override;

 private:
  IpmConfig config_;
};

}  // namespace chorus::inline attacks
