#pragma once

#include <string_view>

#include "algorithm/attacks/attack.h"

namespace chorus::inline attacks {

struct GaussianConfig {
  double deviation = 1;

  void describe(ConfigVisitor& visitor);
};

struct FreeRiderConfig {
  double deviation = 0;

  void describe(ConfigVisitor& visitor);
};

/// Sends independent N(0, deviation^2) values instead of an update (Blanchard et al. 2017, section 5). With a small
/// deviation, or 0, it is a free rider: a client that pretends to have trained (Lin et al. 2019).
class Gaussian : public Attack {
 public:
  explicit Gaussian(double deviation) : deviation_(deviation) {}
  std::vector<at::Tensor> corrupt(const AttackInput& input) const override;

 private:
  double deviation_;
};

}  // namespace chorus::inline attacks
