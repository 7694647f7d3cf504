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

/// The dataset with some of `examples` changed as attackers want them; which ones, when the poison is for a share of
/// them, follows from the seed. An example that already is as they want it does not count as changed: its label without
/// a trigger, the target with one. ConfigError for data without class labels and for labels that it does not have.
PoisonedData poisoned(const Dataset& data, std::span<const std::uint32_t> examples, const Poison& poison,
                      std::uint64_t seed);

}  // namespace chorus::inline experiment
