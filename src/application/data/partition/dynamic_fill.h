#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace chorus::inline partition {

/// FedNLP's dynamic re-assignment (Lin et al. 2022, appendix C): a client lacks `need` examples of the exhausted label
/// `exhausted`; other labels fill the gap in proportion to what remains. `remaining[k]` counts the unassigned examples
/// of label k; the entry of `exhausted` is ignored.
///
/// With r_k the remaining examples and R their sum, labels are visited in ascending r_k (ties by id). First pass: label
/// k gives min(ceil(r_k / R * need), r_k), or less when the gap is filled. Second pass, if something is still missing:
/// min(ceil(r_k / R * missing), what is left of k). Returns how many examples each label gives; their sum is min(need,
/// R).
std::vector<std::size_t> dynamic_fill(std::span<const std::size_t> remaining, std::size_t need, std::size_t exhausted);

}  // namespace chorus::inline partition
