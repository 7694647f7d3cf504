#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "application/data/partition/partition.h"

namespace chorus {

/// The order in which examples are dealt: grouped by label, shuffled inside each label. `begin` has one entry a label
/// and one for the end.
struct LabelPiles {
  std::vector<ExampleId> order;
  std::vector<std::size_t> begin;

  std::size_t labels() const { return begin.size() - 1; }
};

/// Shuffles with streams keyed by (seed, label, split), so that a pile does not depend on the others.
LabelPiles make_piles(std::span<const std::int32_t> labels, std::size_t label_count, std::uint64_t seed,
                      std::uint64_t split);

/// What `deal_label_mixes` deals: examples with their labels, and how many each client is to get.
struct LabelDeal {
  std::span<const std::int32_t> labels;  ///< one an example, 0 .. label_count-1
  std::size_t label_count = 0;
  std::span<const std::size_t> sizes;  ///< one a client; the last client takes whatever is left
  double alpha = 1;                    ///< concentration; > 0
  std::uint64_t seed = 0;
  std::uint64_t split = 0;  ///< 0 train, 1 test: keeps their draws independent
};

/// Label Dirichlet with dynamic re-assignment (paper 000, section 3.2 and appendix C). Client j draws
/// q ~ Dirichlet(alpha p), p the labels' shares; label by label it takes round-half-even(q_l * size) examples (never
/// more than it still has room for; the last label fills the room); what a used-up label lacks comes from the others
/// by `dynamic_fill`. Returns the owner of each example. Time O(examples + clients * labels).
std::vector<ClientId> deal_label_mixes(const LabelDeal& deal);

}  // namespace chorus
