#pragma once

#include <cstdint>
#include <span>

namespace chorus::inline audit {

/// How much of a text an attacker has recovered.
struct TokenRecovery {
  double recall = 0;     ///< share of the distinct tokens that were found
  double precision = 0;  ///< share of what was found that is in the text
  double rouge_l = 0;    ///< F score of the longest common subsequence: tokens in their order (Lin 2004)
};
/// `found` in the attacker's order.
TokenRecovery token_recovery(std::span<const std::int64_t> text, std::span<const std::int64_t> found);

}  // namespace chorus::inline audit
