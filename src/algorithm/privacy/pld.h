#pragma once

#include <cstddef>
#include <span>

#include "algorithm/privacy/mechanism.h"

namespace chorus::inline privacy {

/// Epsilon of mechanisms composed sequentially on the same records, from their privacy loss distributions: the worse of
/// the two directions, and never below the exact value.
///
/// The losses are put on a grid (loss_points.h) and composed by the FFT. Before that each distribution is tilted: p(x)
/// is multiplied by exp(t x), with the t that moves the mean of the composed loss to about epsilon. The tail that
/// decides delta is then in the middle, where the FFT has its full relative accuracy; so delta = 1e-10 after a million
/// steps costs no precision. The grid covers the tilted sum with `cells` points. What it cuts off (Chernoff's bound)
/// and a bound on rounding errors are added to delta.
///
/// Takes about a second with the default number of cells, for any number of steps. Fewer cells are faster and give a
/// larger epsilon.
double pld_epsilon(std::span<const Mechanism> mechanisms, Adjacency adjacency, double delta,
                   std::size_t cells = std::size_t{1} << 20);

}  // namespace chorus::inline privacy
