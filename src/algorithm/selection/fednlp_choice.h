#pragma once

#include "algorithm/selection/selector.h"

namespace chorus {

/// FedNLP's and FedML's selection, number for number: `numpy.random.seed(round)`, then
/// `numpy.random.choice(range(n), count, replace=False)`, which is the beginning of a legacy permutation (MT19937,
/// Fisher-Yates from the end, bounded numbers by mask and rejection); 0 .. n-1 in order when all take part. The seed of
/// the run is not used: as there, every run selects the same clients. Clients without data or out of reach are left out
/// before the draw (the n above counts the others), so the cohort is FedNLP's exactly when everyone has data.
/// Registered as "fednlp".
class FednlpChoice : public Selector {
 public:
  std::vector<ClientId> select(const SelectionContext& context) const override;
};

/// `numpy.random.seed(seed); numpy.random.permutation(n)`.
std::vector<std::uint32_t> numpy_permutation(std::uint32_t seed, std::size_t n);

}  // namespace chorus
