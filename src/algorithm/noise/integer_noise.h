#pragma once

#include <cstdint>

#include "algorithm/noise/secret_stream.h"

namespace chorus::inline noise {

/// Noise on the integers. Floating-point Gaussians and Laplacians leak through the pattern of values that they can take
/// (Mironov 2012); these are drawn with integer arithmetic alone, so every probability is exact.

/// True with probability exp(-numerator / denominator), exactly (Canonne, Kamath and Steinke 2020, algorithm 1).
/// numerator * 2^16 and denominator * 2^16 must fit into 128 bits.
bool bernoulli_exp(SecretStream& stream, SecretStream::Wide numerator, SecretStream::Wide denominator);

/// P(x) ~ exp(-|x| / scale), for an integer scale below 2^40 (their algorithm 2).
std::int64_t discrete_laplace(SecretStream& stream, std::uint64_t scale);

/// P(x) ~ exp(-x^2 / (2 sigma^2)), for an integer sigma below 2^25 (their algorithm 3). Choose the unit of the integers
/// such that sigma is one: a grid of sigma / 2^24 is finer than the rounding of a float.
std::int64_t discrete_gaussian(SecretStream& stream, std::uint64_t sigma);

/// The difference of two Poisson variables, with the given variance (at most 2^52). Sums of Skellam variables are
/// Skellam variables (Agarwal, Kairouz and Liu 2021). Poisson variables are drawn by Hörmann's transformed rejection
/// (1993), whose acceptance test is evaluated in double precision: probabilities are accurate to about 1e-13, and the
/// values that can occur do not depend on the data.
std::int64_t skellam(SecretStream& stream, double variance);

/// A Poisson variable.
std::int64_t poisson(SecretStream& stream, double mean);

}  // namespace chorus::inline noise
