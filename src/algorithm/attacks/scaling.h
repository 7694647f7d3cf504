#pragma once

#include "algorithm/attacks/attack.h"

namespace chorus::inline attacks {

struct SignFlipConfig {
  double factor = 1;

  void describe(ConfigVisitor& visitor);
};

struct ScalingConfig {
  double factor = 100;

  void describe(ConfigVisitor& visitor);
};

/// Sends `factor` times the honest update: a negative factor flips the sign (ascent instead of descent), a large one
/// takes over the mean (model replacement, Bagdasaryan et al. 2020).
class Scaling : public Attack {
 public:
  explicit Scaling(double factor) : factor_(factor) {}
  std::vector<at::Tensor> corrupt(const AttackInput& input) const override;

 private:
  double factor_;
};

}  // namespace chorus::inline attacks
