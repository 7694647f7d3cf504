#pragma once

#include <cstdint>
#include <span>

#include "algorithm/noise/secret_stream.h"

namespace chorus::inline noise {

/// Standard deviation of the noise below, in units of the integers: finer than the rounding of a float.
inline constexpr std::uint64_t kWideDeviation = std::uint64_t{1} << 24;

/// Fills a vector with discrete Gaussian noise, P(x) ~ exp(-x^2 / (2 kWideDeviation^2)), several times faster than
/// discrete_gaussian() (integer_noise.h), for noise on millions of parameters in every step.
///
/// |x| is drawn by rejection under a staircase: a step of an eighth of a deviation is chosen by its weight at the left
/// edge, |x| is uniform within it, and is accepted with probability exp(-(x^2 - edge^2) / (2 sigma^2)), which is above
/// 0.1. Steps are weighed with 128 bits; the exponential is the only floating-point operation, and the values that can
/// occur do not depend on the data. Each probability is within 2^-48 of its own value up to 9 deviations. Further out,
/// where a value falls with a probability below 2^-60, it is less exact.
void wide_gaussian(SecretStream& stream, std::span<std::int64_t> out);

}  // namespace chorus::inline noise
