#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithm/attacks/poison.h"
#include "application/data/dataset.h"

namespace chorus::inline experiment {

struct PoisonedData {
  Dataset data;                        ///< the same examples at the same indices with the same label ids
  std::vector<std::uint32_t> changed;  ///< ascending
};

/// The dataset with some of `examples` changed as the attackers want; when the poison is for a share of them, the seed
/// decides which. An example that already has the wanted form does not count as changed: its label without a trigger,
/// the target with one. ConfigError for data without class labels and for unknown labels.
PoisonedData poisoned(const Dataset& data, std::span<const std::uint32_t> examples, const Poison& poison,
                      std::uint64_t seed);

}  // namespace chorus::inline experiment
