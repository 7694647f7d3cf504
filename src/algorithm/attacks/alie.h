#pragma once

#include "algorithm/attacks/attack.h"

namespace chorus::inline attacks {

struct AlieConfig {
  double z = 0;  ///< deviations from the mean; 0: z_max

  void describe(ConfigVisitor& visitor);
};

/// "A little is enough" (Baruch et al. 2019, algorithm 3): the m attackers estimate mean and standard deviation of each
/// element from their own honest updates and all send mean - z deviation. By default z is the largest that lets the
/// attackers win a majority together with honest clients that are further out:
///     s = floor(n / 2 + 1) - m,   z_max = Phi^-1((n - m - s) / (n - m))
/// With a single attacker in a round there is no deviation, and it sends its honest update.
class Alie : public Attack {
 public:
  explicit Alie(const AlieConfig& config) : config_(config) {}
  std::vector<at::Tensor> corrupt(const AttackInput& input) const override;

  /// z_max for n clients with m attackers; 0 when they are a majority already.
  static double largest_z(std::size_t n, std::size_t m);

 private:
  AlieConfig config_;
};

}  // namespace chorus::inline attacks
