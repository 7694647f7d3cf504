#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace chorus::inline compression {

/// The filters' loops over every element of a vector, compiled for several instruction sets. Results do not depend on
/// which one a machine has: nothing is contracted (-ffp-contract=off) and sums use a fixed number of lanes.

/// max |x|, exact; larger than any finite value when an element is not finite.
float max_magnitude(std::span<const float> values);
/// sum |x|
double sum_of_magnitudes(std::span<const float> values);
/// sum x^2
double sum_of_squares(std::span<const float> values);
/// sum (x - y)^2
double squared_distance(std::span<const float> x, std::span<const float> y);

/// Code of the largest multiple of 1 / inverse below |x| after adding noise in [0, 1), at most `most`: `middle` plus
/// the signed multiple, ...
void quantise_around(std::span<const float> x, const float* noise, float inverse, int most, int middle,
                     std::uint8_t* codes);
/// ... or the multiple, plus `sign` where x is negative.
void quantise_signed(std::span<const float> x, const float* noise, float inverse, int most, int sign,
                     std::uint8_t* codes);
/// Code of the multiple of 1 / inverse between origin and x.
void quantise_above(std::span<const float> x, const float* noise, float origin, float inverse, int most,
                    std::uint8_t* codes);

/// x = origin + step (code - middle)
void dequantise(const std::uint8_t* codes, int middle, float origin, float step, std::span<float> x);
/// x = step * (code without its sign bit), negative where the bit is set.
void dequantise_signed(const std::uint8_t* codes, int sign, float step, std::span<float> x);

/// Float16 (core/tensor/bfloat16.h has bfloat16); saturates at +-65504.
void to_float16(std::span<const float> x, std::byte* out);
void from_float16(const std::byte* in, std::span<float> x);

/// The `count`-th largest |x|, as the bits of that float; 1 <= count <= number of elements.
struct Threshold {
  std::uint32_t bits;
  std::size_t above;  ///< number of larger elements
};
Threshold magnitude_at(std::span<const float> values, std::size_t count);

}  // namespace chorus::inline compression
