#pragma once

#include <span>
#include <vector>

#include "algorithm/robust/robust_rule.h"

namespace chorus::inline robust {

struct KrumConfig {
  std::int64_t attackers = 1;  ///< f
  std::int64_t keep = 1;       ///< m: updates averaged; 1 is Krum, more is multi-Krum
  MixingConfig mixing = {};

  void describe(ConfigVisitor& visitor);
};

/// Krum and multi-Krum (Blanchard et al. 2017). The score of a client is the sum of its squared distances to its
/// n - f - 2 nearest others; the m clients with the lowest scores are averaged. n >= 2f + 3, and m <= n - f - 2 (El
/// Mhamdi et al. 2018, proposition 2).
class Krum : public RobustRule {
 public:
  explicit Krum(const KrumConfig& config) : RobustRule(config.mixing), config_(config) {}

 protected:
  std::size_t least_rows() const override;
  at::Tensor combine(Rows rows, const std::string& tensor) override;

 private:
  KrumConfig config_;
};

/// The `count` clients of `among` with the lowest Krum scores for f attackers, given squared distances (n x n): lowest
/// first, ties in the order of `among`. A score sums over at least one other client if there is one.
std::vector<std::size_t> krum_order(std::span<const double> squared, std::size_t n, std::span<const std::size_t> among,
                                    std::size_t f);

}  // namespace chorus::inline robust
