#pragma once

#include "algorithm/selection/selector.h"

namespace chorus::inline selection {

/// The exact selection of FedNLP and FedML: `numpy.random.seed(round)`, then `numpy.random.choice(range(n), count,
/// replace=False)`, the beginning of a legacy permutation (MT19937, Fisher-Yates from the end, bounded values by mask
/// and rejection); 0 .. n-1 in order when all take part. The run's seed is not used: as in FedNLP, every run selects
/// the same clients. Clients without data or out of reach are removed before the draw (n counts the others), so the
/// cohort is FedNLP's exactly when every client has data. Registered as "fednlp".
class FednlpChoice : public Selector {
 public:
  std::vector<ClientId> select(const SelectionContext& context) const override;
};

/// `numpy.random.seed(seed); numpy.random.permutation(n)`.
std::vector<std::uint32_t> numpy_permutation(std::uint32_t seed, std::size_t n);

}  // namespace chorus::inline selection
