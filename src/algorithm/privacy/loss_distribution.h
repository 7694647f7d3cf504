#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "algorithm/privacy/mechanism.h"

namespace chorus::inline privacy {

/// Equal cells of privacy losses: cell i holds losses in ((first + i) * step, (first + i + 1) * step].
struct LossGrid {
  double step = 0;
  std::int64_t first = 0;
  std::size_t cells = 0;
};

/// Probability of each cell under P and under Q, and the mass beyond the grid.
struct LossCells {
  LossGrid grid;
  std::vector<double> p, q;
  double p_above = 0, q_above = 0;
  double p_below = 0, q_below = 0;
};

/// The privacy loss ln(P(x) / Q(x)) of one release under two neighbouring data sets, where (P, Q) dominates every pair
/// of neighbours (Zhu, Dong and Wang 2022). For adjacency add_remove, P is the data set with the additional record;
/// both directions of the pair must be accounted for.
class LossDistribution {
 public:
  virtual ~LossDistribution() = default;

  struct Range {
    double low = 0, high = 0;
  };
  /// Losses with at most `tail` of P's mass above, and at most `tail` of Q's mass below.
  virtual Range range(double tail) const = 0;
  virtual LossCells cells(const LossGrid& grid) const = 0;
  /// The largest absolute loss; infinite where only delta > 0 can be promised.
  virtual double largest() const = 0;
};

/// A mechanism as a loss distribution that is composed `steps` times. Unsampled Gaussians are merged over their steps,
/// so `steps` is then 1. ConfigError where the pair is not known (Skellam noise on vectors: use RDP).
struct ComposedLoss {
  std::unique_ptr<LossDistribution> loss;
  double steps = 1;
};
ComposedLoss composed_loss(const Mechanism& mechanism, Adjacency adjacency);

}  // namespace chorus::inline privacy
