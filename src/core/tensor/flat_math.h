#pragma once

#include <cstdint>
#include <span>

namespace chorus::inline tensor {

/// Arithmetic on long vectors at the speed of memory: one pass, all of this thread's cores (at::parallel_for), pieces
/// that do not depend on their number.

/// The vectors of one weighted_sum, at most.
inline constexpr std::size_t kMostTerms = 8;

struct Term {
  const float* numbers;
  float weight;
};
/// out = sum_k weight_k * numbers_k, and then each of `sums` added, one after the other. `out` may be any of them.
void weighted_sum(float* out, std::span<const Term> terms, std::span<const float* const> sums, std::int64_t count);
/// x += y
void add_to(float* x, const float* y, std::int64_t count);
/// x -= y; returns whether all differences are finite.
bool subtract_from(float* x, const float* y, std::int64_t count);
/// Whether all are numbers, none infinite.
bool all_finite(const float* numbers, std::int64_t count);

}  // namespace chorus::inline tensor
