#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace chorus {

/// FedNLP's dynamic re-assignment (paper 000, appendix C): a client lacks `need` examples of label `exhausted`, which
/// has run out; other labels fill the gap by their share of what remains. `remaining[k]` counts the unassigned examples
/// of label k; `exhausted` is left out whatever its entry.
///
/// With r_k what remains and R their sum, labels are visited in ascending r_k (ties by id). First pass: label k gives
/// min(ceil(r_k / R * need), r_k), less where that would be too much. A second pass, only when something still lacks,
/// gives min(ceil(r_k / R * lacking), what is left of k). Returns how many each label gives; their sum is
/// min(need, R).
std::vector<std::size_t> dynamic_fill(std::span<const std::size_t> remaining, std::size_t need, std::size_t exhausted);

}  // namespace chorus
