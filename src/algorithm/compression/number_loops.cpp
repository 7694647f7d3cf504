#include "algorithm/compression/number_loops.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/best_instructions.h"
#include "core/error.h"

namespace chorus {
namespace {

CHORUS_FAST_LOOPS

constexpr std::size_t kSumLanes = 16;

inline double total(const double* lanes) {
  double sum = 0;
  for (std::size_t i = 0; i < kSumLanes; ++i) sum += lanes[i];
  return sum;
}

// Of floats without their sign the larger has the larger bits, and integers have a maximum that vectorises.
CHORUS_BEST_INSTRUCTIONS
std::uint32_t largest_bits(const std::uint32_t* __restrict bits, std::size_t n) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < n; ++i) most = (bits[i] & 0x7FFFFFFFU) > most ? bits[i] & 0x7FFFFFFFU : most;
  return most;
}

CHORUS_BEST_INSTRUCTIONS
double add_magnitudes(const float* __restrict x, std::size_t n) {
  double lanes[kSumLanes] = {};
  std::size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (std::size_t j = 0; j < kSumLanes; ++j) lanes[j] += static_cast<double>(__builtin_fabsf(x[i + j]));
  }
  for (std::size_t j = 0; i < n; ++i, ++j) lanes[j] += static_cast<double>(__builtin_fabsf(x[i]));
  return total(lanes);
}

CHORUS_BEST_INSTRUCTIONS
double add_squares(const float* __restrict x, std::size_t n) {
  double lanes[kSumLanes] = {};
  std::size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (std::size_t j = 0; j < kSumLanes; ++j) {
      const auto wide = static_cast<double>(x[i + j]);
      lanes[j] += wide * wide;
    }
  }
  for (std::size_t j = 0; i < n; ++i, ++j) lanes[j] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total(lanes);
}

CHORUS_BEST_INSTRUCTIONS
double add_squared_differences(const float* __restrict x, const float* __restrict y, std::size_t n) {
  double lanes[kSumLanes] = {};
  std::size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (std::size_t j = 0; j < kSumLanes; ++j) {
      const double off = static_cast<double>(x[i + j]) - static_cast<double>(y[i + j]);
      lanes[j] += off * off;
    }
  }
  for (std::size_t j = 0; i < n; ++i, ++j) {
    const double off = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    lanes[j] += off * off;
  }
  return total(lanes);
}

inline int level_of(float distance, float noise, float inverse, float most) {
  const float level = distance * inverse + noise;
  return static_cast<int>(level < most ? level : most);
}

CHORUS_BEST_INSTRUCTIONS
void code_around(const float* __restrict x, const float* __restrict noise, float inverse, int most, int middle,
                 std::uint8_t* __restrict codes, std::size_t n) {
  const auto limit = static_cast<float>(most);
  for (std::size_t i = 0; i < n; ++i) {
    const int level = level_of(__builtin_fabsf(x[i]), noise[i], inverse, limit);
    codes[i] = static_cast<std::uint8_t>((x[i] < 0 ? -level : level) + middle);
  }
}

CHORUS_BEST_INSTRUCTIONS
void code_signed(const float* __restrict x, const float* __restrict noise, float inverse, int most, int sign,
                 std::uint8_t* __restrict codes, std::size_t n) {
  const auto limit = static_cast<float>(most);
  for (std::size_t i = 0; i < n; ++i) {
    const int level = level_of(__builtin_fabsf(x[i]), noise[i], inverse, limit);
    codes[i] = static_cast<std::uint8_t>(level | (x[i] < 0 ? sign : 0));
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

CHORUS_END_OF_FAST_LOOPS

constexpr std::uint32_t kLowBits = 16, kLowMask = 0xFFFF;

std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU; }

// From the largest bin down, the one in which `count` are reached; `above` counts those of larger bins.
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
  code_around(x.data(), noise, inverse, most, middle, codes, x.size());
}

void quantise_signed(std::span<const float> x, const float* noise, float inverse, int most, int sign,
                     std::uint8_t* codes) {
  code_signed(x.data(), noise, inverse, most, sign, codes, x.size());
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

// By the high bits first, then by the low bits of those that share them: two passes instead of a sort.
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

}  // namespace chorus
