#pragma once

#include "algorithm/attacks/attack.h"

namespace chorus::inline attacks {

struct AlieConfig {
  double z = 0;  ///< standard deviations from the mean; 0: z_max

  void describe(ConfigVisitor& visitor);
};

/// "A little is enough" (Baruch et al. 2019, algorithm 3): the m attackers estimate the mean and the standard deviation
/// of each element from their own honest updates, and all send mean - z * deviation. By default z is the largest value
/// for which attackers and the outermost honest clients together are a majority:
///     s = floor(n / 2 + 1) - m,   z_max = Phi^-1((n - m - s) / (n - m))
/// A single attacker in a round has no deviation to estimate and sends its honest update.
class Alie : public Attack {
 public:
  explicit Alie(const AlieConfig& config) : config_(config) {}
  std::vector<at::Tensor> corrupt(const AttackInput& input) const override;

  /// z_max for n clients with m attackers; 0 when the attackers already are a majority.
  static double largest_z(std::size_t n, std::size_t m);

 private:
  AlieConfig config_;
};

}  // namespace chorus::inline attacks
