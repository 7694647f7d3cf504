#pragma once

#include <cstdint>
#include <span>

namespace chorus {

/// Arithmetic on long vectors at the speed of memory: one pass, all of this thread's cores (at::parallel_for), pieces
/// that do not depend on their number.

/// The vectors of one weighted_sum, at most.
inline constexpr std::size_t kMostTerms = 4;

struct Term {
  const float* numbers;
  float weight;
};
/// out = sum_k weight_k * numbers_k, in the order given. `out` may be one of them.
void weighted_sum(float* out, std::span<const Term> terms, std::int64_t count);
/// x += y
void add_to(float* x, const float* y, std::int64_t count);
/// x -= y; returns whether all differences are finite.
bool subtract_from(float* x, const float* y, std::int64_t count);
/// Whether all are numbers, none infinite.
bool all_finite(const float* numbers, std::int64_t count);

}  // namespace chorus
