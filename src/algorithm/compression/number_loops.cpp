#include "algorithm/compression/number_loops.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/base/best_instructions.h"
#include "core/base/error.h"

namespace chorus::inline compression {
namespace {

CHORUS_FAST_LOOPS

constexpr std::size_t kSumLanes = 16;

// The sum of term(0) to term(n - 1).
template <typename Term>
[[gnu::always_inline]] inline double sum_over(std::size_t n, Term term) {
  double lanes[kSumLanes] = {};
  std::size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (std::size_t j = 0; j < kSumLanes; ++j) lanes[j] += term(i + j);
  }
  for (std::size_t j = 0; i < n; ++i, ++j) lanes[j] += term(i);
  double sum = 0;
  for (std::size_t j = 0; j < kSumLanes; ++j) sum += lanes[j];
  return sum;
}

// Without the sign, the larger float has the larger bits, and an integer maximum vectorizes.
CHORUS_BEST_INSTRUCTIONS
std::uint32_t largest_bits(const std::uint32_t* __restrict bits, std::size_t n) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < n; ++i) most = (bits[i] & 0x7FFFFFFFU) > most ? bits[i] & 0x7FFFFFFFU : most;
  return most;
}

CHORUS_BEST_INSTRUCTIONS
double add_magnitudes(const float* __restrict x, std::size_t n) {
  return sum_over(n, [&](std::size_t i) { return static_cast<double>(__builtin_fabsf(x[i])); });
}

CHORUS_BEST_INSTRUCTIONS
double add_squares(const float* __restrict x, std::size_t n) {
  return sum_over(n, [&](std::size_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
}

CHORUS_BEST_INSTRUCTIONS
double add_squared_differences(const float* __restrict x, const float* __restrict y, std::size_t n) {
  return sum_over(n, [&](std::size_t i) {
    const double off = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    return off * off;
  });
}

inline int level_of(float distance, float noise, float inverse, float most) {
  const float level = distance * inverse + noise;
  return static_cast<int>(level < most ? level : most);
}

CHORUS_BEST_INSTRUCTIONS
void code_sizes(const float* __restrict x, const float* __restrict noise, float inverse, int most, int zero,
                int negative, int direction, std::uint8_t* __restrict codes, std::size_t n) {
  const auto limit = static_cast<float>(most);
  for (std::size_t i = 0; i < n; ++i) {
    const int level = level_of(__builtin_fabsf(x[i]), noise[i], inverse, limit);
    codes[i] = static_cast<std::uint8_t>(x[i] < 0 ? negative + direction * level : zero + level);
  }
}

CHORUS_BEST_INSTRUCTIONS
void code_above(const float* __restrict x, const float* __restrict noise, float origin, float inverse, int most,
                std::uint8_t* __restrict codes, std::size_t n) {
  const auto limit = static_cast<float>(most);
  for (std::size_t i = 0; i < n; ++i) {
    codes[i] = static_cast<std::uint8_t>(level_of(x[i] - origin, noise[i], inverse, limit));
  }
}

CHORUS_BEST_INSTRUCTIONS
void decode_codes(const std::uint8_t* __restrict codes, int middle, float origin, float step, float* __restrict x,
                  std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = origin + step * static_cast<float>(static_cast<int>(codes[i]) - middle);
}

CHORUS_BEST_INSTRUCTIONS
void decode_signed(const std::uint8_t* __restrict codes, int sign, float step, float* __restrict x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float size = static_cast<float>(static_cast<int>(codes[i]) & (sign - 1)) * step;
    x[i] = (static_cast<int>(codes[i]) & sign) != 0 ? -size : size;
  }
}

// Unaligned.
struct __attribute__((packed, may_alias)) Half {
  std::uint16_t bits;
};

inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

// The exponent's bias changes from 127 to 15 and 13 bits of the fraction are dropped. Values below 2^-14 have no
// implicit leading one: adding a number whose last bit is worth 2^-24 rounds them.
CHORUS_BEST_INSTRUCTIONS
void round_to_float16(const float* __restrict x, Half* __restrict out, std::size_t n) {
  constexpr std::uint32_t kLargest = 0x477FE000U /* 65504 */, kSmallest = 113U << 23, kShift = 126U << 23;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = bits_of(x[i]), sign = bits & 0x80000000U, all = bits ^ sign;
    const std::uint32_t size = all < kLargest ? all : kLargest;
    const std::uint32_t normal = (size + ((15U - 127U) << 23) + 0xFFFU + ((size >> 13) & 1U)) >> 13;
    const std::uint32_t tiny = bits_of(float_of(size) + float_of(kShift)) - kShift;
    out[i].bits = static_cast<std::uint16_t>((size < kSmallest ? tiny : normal) | (sign >> 16));
  }
}

CHORUS_BEST_INSTRUCTIONS
void widen_float16(const Half* __restrict in, float* __restrict x, std::size_t n) {
  constexpr std::uint32_t kExponent = 0x7C00U << 13;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t half = in[i].bits, size = (half & 0x7FFFU) << 13, exponent = size & kExponent;
    const std::uint32_t normal = size + ((127U - 15U) << 23);
    const std::uint32_t endless = normal + ((128U - 16U) << 23);  // infinity or NaN
    const std::uint32_t tiny = bits_of(float_of(normal + (1U << 23)) - float_of(113U << 23));
    const std::uint32_t magnitude = exponent == 0 ? tiny : exponent == kExponent ? endless : normal;
    x[i] = float_of(magnitude | ((half & 0x8000U) << 16));
  }
}

CHORUS_END_OF_FAST_LOOPS

constexpr std::uint32_t kLowBits = 16, kLowMask = 0xFFFF;

std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU; }

// From the largest bin down, the bin in which `count` is reached; `above` counts the elements of larger bins.
std::uint32_t bin_of(const std::vector<std::size_t>& bins, std::size_t count, std::size_t& above) {
  for (std::size_t bin = bins.size(); bin-- > 0;) {
    if (above + bins[bin] >= count) return static_cast<std::uint32_t>(bin);
    above += bins[bin];
  }
  throw InternalError("there are fewer numbers than are asked for");
}

}  // namespace

float max_magnitude(std::span<const float> values) {
  static_assert(sizeof(float) == sizeof(std::uint32_t));
  return std::bit_cast<float>(largest_bits(reinterpret_cast<const std::uint32_t*>(values.data()), values.size()));
}

double sum_of_magnitudes(std::span<const float> values) { return add_magnitudes(values.data(), values.size()); }

double sum_of_squares(std::span<const float> values) { return add_squares(values.data(), values.size()); }

double squared_distance(std::span<const float> x, std::span<const float> y) {
  check(x.size() == y.size(), "vectors of two sizes");
  return add_squared_differences(x.data(), y.data(), x.size());
}

void quantise_around(std::span<const float> x, const float* noise, float inverse, int most, int middle,
                     std::uint8_t* codes) {
  code_sizes(x.data(), noise, inverse, most, middle, middle, -1, codes, x.size());
}

void quantise_signed(std::span<const float> x, const float* noise, float inverse, int most, int sign,
                     std::uint8_t* codes) {
  code_sizes(x.data(), noise, inverse, most, 0, sign, 1, codes, x.size());
}

void quantise_above(std::span<const float> x, const float* noise, float origin, float inverse, int most,
                    std::uint8_t* codes) {
  code_above(x.data(), noise, origin, inverse, most, codes, x.size());
}

void dequantise(const std::uint8_t* codes, int middle, float origin, float step, std::span<float> x) {
  decode_codes(codes, middle, origin, step, x.data(), x.size());
}

void dequantise_signed(const std::uint8_t* codes, int sign, float step, std::span<float> x) {
  decode_signed(codes, sign, step, x.data(), x.size());
}

void to_float16(std::span<const float> x, std::byte* out) {
  round_to_float16(x.data(), reinterpret_cast<Half*>(out), x.size());
}
void from_float16(const std::byte* in, std::span<float> x) {
  widen_float16(reinterpret_cast<const Half*>(in), x.data(), x.size());
}

// By the high bits first, then by the low bits of elements that share them: two passes instead of a sort.
Threshold magnitude_at(std::span<const float> values, std::size_t count) {
  check(count >= 1 && count <= values.size(), "no such place in the order");
  Threshold result{0, 0};
  std::vector<std::size_t> bins(std::size_t{1} << (31 - kLowBits));
  for (const float value : values) ++bins[magnitude_bits(value) >> kLowBits];
  const std::uint32_t high = bin_of(bins, count, result.above);
  bins.assign(kLowMask + 1, 0);
  for (const float value : values) {
    const std::uint32_t bits = magnitude_bits(value);
    if (bits >> kLowBits == high) ++bins[bits & kLowMask];
  }
  result.bits = (high << kLowBits) | bin_of(bins, count, result.above);
  return result;
}

}  // namespace chorus::inline compression
