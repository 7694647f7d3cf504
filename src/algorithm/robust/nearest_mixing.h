#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithm/robust/row_math.h"
#include "core/config/config_visitor.h"

namespace chorus::inline robust {

/// The step before a robust rule.
struct MixingConfig {
  std::int64_t attackers = 0;  ///< f; 0: no mixing

  void describe(ConfigVisitor& visitor);
  std::size_t least_updates() const { return 2 * static_cast<std::size_t>(attackers) + 1; }
};

/// Nearest-neighbour mixing (Allouah et al. 2023, algorithm 2): every row becomes the mean of the n - f rows nearest to
/// it, itself among them. Honest rows that differ come close to each other, so that a rule which follows one row or the
/// middle of all loses little, and cannot be led away by attackers within the spread of the others. n >= 2f + 1. Ties
/// go to the client that comes first.
///
///     aggregation: {name: median, mixing: 5}
std::vector<at::Tensor> mix_nearest(Rows rows, std::size_t f);

}  // namespace chorus::inline robust
