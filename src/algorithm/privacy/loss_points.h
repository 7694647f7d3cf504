#pragma once

#include <cstdint>
#include <vector>

#include "algorithm/privacy/loss_distribution.h"

namespace chorus::inline privacy {

/// A privacy loss distribution on the points of a grid: loss (first + i) * step has probability p[i] under P, and an
/// infinite loss has probability `infinite`. It dominates the loss distribution it was made from.
struct LossPoints {
  double step = 0;
  std::int64_t first = 0;
  std::vector<double> p, log_p = {};
  double infinite = 0;

  double loss(std::size_t i) const { return static_cast<double>(first + static_cast<std::int64_t>(i)) * step; }
};

enum class Direction { kForward, kReverse };  ///< P against Q, or Q against P

/// Connect the dots (Doroshenko et al. 2022): the mass of a cell moves to its two ends such that its probability is
/// kept under both P and Q. delta(epsilon) is then exact on the grid and a chord in exp(epsilon) in between, the
/// smallest pessimistic choice on this grid. Rounding errors are pushed towards the upper end.
LossPoints connect_the_dots(const LossCells& cells, Direction direction);

/// ln E[e^{t L}; L finite] and its derivative.
struct Cumulants {
  double value = 0, mean = 0;
};
Cumulants cumulants(const LossPoints& points, double t);

}  // namespace chorus::inline privacy
