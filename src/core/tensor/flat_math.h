#pragma once

#include <cstdint>
#include <span>

namespace chorus::inline tensor {

/// Arithmetic on long vectors at memory bandwidth: one pass, on all threads of LibTorch. Results do not depend on the
/// number of threads.

/// Maximum number of vectors in a weighted_sum.
inline constexpr std::size_t kMostTerms = 8;

struct Term {
  const float* numbers;
  float weight;
};
/// out = sum_k weight_k * numbers_k, plus each of `sums`, added one after the other. `out` may be any of the inputs.
void weighted_sum(float* out, std::span<const Term> terms, std::span<const float* const> sums, std::int64_t count);
/// x += y
void add_to(float* x, const float* y, std::int64_t count);
/// x -= y; returns whether all differences are finite.
bool subtract_from(float* x, const float* y, std::int64_t count);
/// Whether no element is NaN or infinite.
bool all_finite(const float* numbers, std::int64_t count);

}  // namespace chorus::inline tensor
