#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "application/data/partition/partition.h"

namespace chorus::inline partition {

/// The order in which examples are dealt: grouped by label, shuffled within each label. `begin` has one entry per label
/// and one for the end.
struct LabelPiles {
  std::vector<ExampleId> order;
  std::vector<std::size_t> begin;

  std::size_t labels() const { return begin.size() - 1; }
};

/// Shuffles with streams keyed by (seed, label, split), so that piles are independent.
LabelPiles make_piles(std::span<const std::int32_t> labels, std::size_t label_count, std::uint64_t seed,
                      std::uint64_t split);

/// Input of `deal_label_mixes`: examples with their labels, and the number for each client.
struct LabelDeal {
  std::span<const std::int32_t> labels;  ///< one per example, 0 .. label_count-1
  std::size_t label_count = 0;
  std::span<const std::size_t> sizes;  ///< one per client; the last client takes the rest
  double alpha = 1;                    ///< concentration; > 0
  std::uint64_t seed = 0;
  std::uint64_t split = 0;  ///< 0 train, 1 test: keeps their draws independent
};

/// Label Dirichlet with dynamic re-assignment (Lin et al. 2022, section 3.2 and appendix C). Client j draws q ~
/// Dirichlet(alpha p), where p are the label shares; label by label it takes round-half-even(q_l * size) examples,
/// capped by its remaining room (the last label fills it). What an exhausted label lacks comes from the others by
/// `dynamic_fill`. Returns the owner of each example. Time O(examples + clients * labels).
std::vector<ClientId> deal_label_mixes(const LabelDeal& deal);

}  // namespace chorus::inline partition
