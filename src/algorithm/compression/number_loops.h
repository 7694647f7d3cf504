#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace chorus::inline compression {

/// The loops of filters over every number of a vector, compiled for several instruction sets. What comes out does not
/// depend on which of them a machine has: nothing is contracted (-ffp-contract=off) and sums go over fixed lanes.

/// max |x|, exact; larger than any finite number when one of them is not.
float max_magnitude(std::span<const float> values);
/// sum |x|
double sum_of_magnitudes(std::span<const float> values);
/// sum x^2
double sum_of_squares(std::span<const float> values);
/// sum (x - y)^2
double squared_distance(std::span<const float> x, std::span<const float> y);

/// Codes of the multiples of 1 / inverse below |x|, noise in [0, 1) added before they are cut, at most `most` of them:
/// `middle` plus the multiple, with its sign, ...
void quantise_around(std::span<const float> x, const float* noise, float inverse, int most, int middle,
                     std::uint8_t* codes);
/// ... or the multiple, and `sign` where x is negative.
void quantise_signed(std::span<const float> x, const float* noise, float inverse, int most, int sign,
                     std::uint8_t* codes);
/// Codes of the multiples of 1 / inverse between origin and x.
void quantise_above(std::span<const float> x, const float* noise, float origin, float inverse, int most,
                    std::uint8_t* codes);

/// x = origin + step (code - middle)
void dequantise(const std::uint8_t* codes, int middle, float origin, float step, std::span<float> x);
/// x = step (code without its sign), negative where it has one.
void dequantise_signed(const std::uint8_t* codes, int sign, float step, std::span<float> x);

/// Half precision, as core/tensor/bfloat16.h writes the other kind of 16 bits; it stays at +-65504 beyond.
void to_float16(std::span<const float> x, std::byte* out);
void from_float16(const std::byte* in, std::span<float> x);

/// The `count`-th largest |x|, as the bits of that float; count from 1 to as many as there are.
struct Threshold {
  std::uint32_t bits;
  std::size_t above;  ///< how many are larger
};
Threshold magnitude_at(std::span<const float> values, std::size_t count);

}  // namespace chorus::inline compression
