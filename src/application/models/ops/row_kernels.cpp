#include "application/models/ops/row_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "application/models/ops/mask_hash.h"
#include "core/base/best_instructions.h"
#include "core/base/error.h"
#include "core/tensor/bfloat16.h"

namespace chorus::inline ops {
namespace {

CHORUS_FAST_LOOPS

// Partial sums: enough for the widest vectors, and the same order of additions on every machine.
constexpr int kLanes = 32;

[[gnu::always_inline]] inline float sum_of(const float* lanes) {
  float step[kLanes];
  for (int i = 0; i < kLanes; ++i) step[i] = lanes[i];
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) step[i] += step[i + half];
  }
  return step[0];
}

// The end of a row as a whole block, padded with `fill`.
inline void take_end(float* block, const float* end, std::int64_t count, float fill) {
  for (int i = 0; i < kLanes; ++i) block[i] = fill;
  std::memcpy(block, end, static_cast<std::size_t>(count) * sizeof(float));
}

CHORUS_BEST_INSTRUCTIONS
float sum(const float* __restrict a, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] += a[j + i];
  }
  for (int i = 0; j < n; ++i, ++j) lanes[i] += a[j];
  return sum_of(lanes);
}

CHORUS_BEST_INSTRUCTIONS
float dot(const float* __restrict a, const float* __restrict b, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] += a[j + i] * b[j + i];
  }
  for (int i = 0; j < n; ++i, ++j) lanes[i] += a[j] * b[j];
  return sum_of(lanes);
}

CHORUS_BEST_INSTRUCTIONS
float greatest(const float* __restrict a, std::int64_t n) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, a[0]);
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] = a[j + i] > lanes[i] ? a[j + i] : lanes[i];
  }
  for (int i = 0; j < n; ++i, ++j) lanes[i] = a[j] > lanes[i] ? a[j] : lanes[i];
  return *std::max_element(lanes, lanes + kLanes);
}

CHORUS_BEST_INSTRUCTIONS
void subtract(float* __restrict a, float b, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) a[j] -= b;
}

// exp(x) for x between -87 and 88. The integer part of the exponent goes into the float's exponent, the rest through a
// polynomial; the relative error is below 2e-7.
inline float exponential(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float rounded = x * 1.44269504f + kRound;
  const float whole = rounded - kRound;
  const float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // The last bits of `rounded` are the integer; those of a NaN are any, and p is NaN.
  const std::uint32_t integer = __builtin_bit_cast(std::uint32_t, rounded) - __builtin_bit_cast(std::uint32_t, kRound);
  return p * __builtin_bit_cast(float, (integer + 127) << 23);
}

// x becomes softmax(scale * x).
CHORUS_BEST_INSTRUCTIONS
void softmax_of(float* __restrict x, float scale, std::int64_t n) {
  constexpr float kLowest = -3e38f;
  const std::int64_t whole = n / kLanes * kLanes;
  float end[kLanes], lanes[kLanes];
  take_end(end, x + whole, n - whole, kLowest);
  for (int i = 0; i < kLanes; ++i) lanes[i] = end[i];
  for (std::int64_t j = 0; j < whole; j += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] = x[j + i] > lanes[i] ? x[j + i] : lanes[i];
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
  }
  const float top = lanes[0];
  for (int i = 0; i < kLanes; ++i) end[i] = end[i] > kLowest ? exponential((end[i] - top) * scale) : 0.0f;
  for (int i = 0; i < kLanes; ++i) lanes[i] = end[i];
  for (std::int64_t j = 0; j < whole; j += kLanes) {
    for (int i = 0; i < kLanes; ++i) {
      x[j + i] = exponential((x[j + i] - top) * scale);
      lanes[i] += x[j + i];
    }
  }
  const float factor = 1.0f / sum_of(lanes);
  for (std::int64_t j = 0; j < whole; ++j) x[j] *= factor;
  for (int i = 0; i < kLanes; ++i) end[i] *= factor;
  std::memcpy(x + whole, end, static_cast<std::size_t>(n - whole) * sizeof(float));
}

CHORUS_BEST_INSTRUCTIONS
float sum_of_exponentials(const float* __restrict a, float top, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] += exponential(a[j + i] - top);
  }
  for (int i = 0; j < n; ++i, ++j) lanes[i] += exponential(a[j] - top);
  return sum_of(lanes);
}

// out = exp(a - top), possibly in place; returns their sum.
CHORUS_BEST_INSTRUCTIONS
float sum_as_exponentials(const float* a, float top, float* out, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) {
      out[j + i] = exponential(a[j + i] - top);
      lanes[i] += out[j + i];
    }
  }
  for (int i = 0; j < n; ++i, ++j) {
    out[j] = exponential(a[j] - top);
    lanes[i] += out[j];
  }
  return sum_of(lanes);
}

CHORUS_BEST_INSTRUCTIONS
void scaled_exponentials(const float* __restrict a, float top, float factor, float* __restrict out, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) out[j] = factor * exponential(a[j] - top);
}

// tanh(u) = 1 - 2 / (exp(2 u) + 1)
constexpr float kTanhSlope = 0.7978845608f, kTanhCube = 0.044715f;

CHORUS_BEST_INSTRUCTIONS
void gelu_by_tanh(const float* __restrict x, float* __restrict y, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    const float u = kTanhSlope * (x[j] + kTanhCube * x[j] * x[j] * x[j]);
    y[j] = x[j] * (1.0f - 1.0f / (exponential(2.0f * u) + 1.0f));
  }
}

CHORUS_BEST_INSTRUCTIONS
void gelu_slope_by_tanh(const float* x, float* __restrict y, float* slope, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t j = 0; j < n; ++j) {
    const float square = x[j] * x[j];
    const float u = kTanhSlope * (x[j] + kTanhCube * square * x[j]);
    const float below = 1.0f - 1.0f / (exponential(2.0f * u) + 1.0f);  // (1 + tanh u) / 2
    const float rise = 2.0f * below * (1.0f - below) * kTanhSlope * (1.0f + 3.0f * kTanhCube * square);
    y[j] = x[j] * below;
    slope[j] = below + x[j] * rise;
  }
}

// 1 - Φ(|x|), by Abramowitz and Stegun 7.1.26 (error below 1e-7); bell = exp(-x^2 / 2).
inline float share_above(float magnitude, float bell) {
  const float t = 1.0f / (1.0f + 0.3275911f * 0.70710678f * magnitude);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  return 0.5f * p * t * bell;
}

CHORUS_BEST_INSTRUCTIONS
void gelu_by_erf(const float* __restrict x, float* __restrict y, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    const float magnitude = x[j] < 0 ? -x[j] : x[j];
    const float above = share_above(magnitude, exponential(-0.5f * x[j] * x[j]));
    y[j] = x[j] * (x[j] < 0 ? above : 1.0f - above);
  }
}

CHORUS_BEST_INSTRUCTIONS
void gelu_slope_by_erf(const float* x, float* __restrict y, float* slope, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t j = 0; j < n; ++j) {
    const float magnitude = x[j] < 0 ? -x[j] : x[j];
    const float bell = exponential(-0.5f * x[j] * x[j]);
    const float above = share_above(magnitude, bell), below = x[j] < 0 ? above : 1.0f - above;
    y[j] = x[j] * below;
    slope[j] = below + x[j] * bell * 0.3989422804f;
  }
}

CHORUS_BEST_INSTRUCTIONS
void add_masked(const float* __restrict f, const float* __restrict x, const float* __restrict mask, float* __restrict s,
                std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) s[j] = f[j] * mask[j] + x[j];
}

CHORUS_BEST_INSTRUCTIONS
void add_rows(const float* __restrict f, const float* __restrict x, float* __restrict s, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) s[j] = f[j] + x[j];
}

CHORUS_BEST_INSTRUCTIONS
void scale_and_shift(float* __restrict normal, float inverse, const float* __restrict weight,
                     const float* __restrict bias, float* __restrict y, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    normal[j] *= inverse;
    y[j] = normal[j] * weight[j] + bias[j];
  }
}

CHORUS_BEST_INSTRUCTIONS
void product(const float* __restrict a, const float* __restrict b, float* __restrict c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = a[j] * b[j];
}

CHORUS_BEST_INSTRUCTIONS
void norm_gradient(const float* __restrict g, const float* __restrict normal, float inverse, float mean, float slope,
                   float* __restrict dx, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) dx[j] = inverse * (g[j] - mean - normal[j] * slope);
}

CHORUS_BEST_INSTRUCTIONS
void add_weight_gradients(const float* __restrict dy, const float* __restrict normal, float* __restrict dweight,
                          float* __restrict dbias, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    dweight[j] += dy[j] * normal[j];
    dbias[j] += dy[j];
  }
}

// d becomes p * (d - sum_j d_j p_j).
CHORUS_BEST_INSTRUCTIONS
void softmax_gradient_of(const float* __restrict p, float* __restrict d, std::int64_t n) {
  const std::int64_t whole = n / kLanes * kLanes;
  float p_end[kLanes], d_end[kLanes], lanes[kLanes] = {};
  take_end(p_end, p + whole, n - whole, 0.0f);
  take_end(d_end, d + whole, n - whole, 0.0f);
  for (std::int64_t j = 0; j < whole; j += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] += p[j + i] * d[j + i];
  }
  for (int i = 0; i < kLanes; ++i) lanes[i] += p_end[i] * d_end[i];
  const float mean = sum_of(lanes);
  for (std::int64_t j = 0; j < whole; ++j) d[j] = p[j] * (d[j] - mean);
  for (int i = 0; i < kLanes; ++i) d_end[i] = p_end[i] * (d_end[i] - mean);
  std::memcpy(d + whole, d_end, static_cast<std::size_t>(n - whole) * sizeof(float));
}

constexpr std::int64_t kTogether = 64;  // groups of a mask per batch

CHORUS_BEST_INSTRUCTIONS
void fill_groups(std::uint64_t key, std::uint64_t first, std::int64_t groups, std::uint32_t threshold, float scale,
                 float* __restrict mask) {
  std::uint64_t hashes[kTogether];
  std::uint16_t bits[4 * kTogether];
  static_assert(std::endian::native == std::endian::little, "the lowest bits are the first element's");
  for (std::int64_t begin = 0; begin < groups; begin += kTogether) {
    const std::int64_t count = std::min(kTogether, groups - begin);
    for (std::int64_t g = 0; g < count; ++g) hashes[g] = mask_hash(key, first + static_cast<std::uint64_t>(begin + g));
    std::memcpy(bits, hashes, sizeof(hashes));
    for (std::int64_t j = 0; j < 4 * count; ++j) mask[4 * begin + j] = bits[j] < threshold ? 0.0f : scale;
  }
}

// Rows of few groups, many at a time: mask [rows, width]. Each row writes its last group whole, and the next row
// overwrites the excess.
CHORUS_BEST_INSTRUCTIONS
void fill_short_rows(std::uint64_t key, std::uint64_t first, std::uint64_t row_stride, std::int64_t rows,
                     std::int64_t groups, std::int64_t width, std::uint32_t threshold, float scale, float* mask) {
  std::uint64_t hashes[kTogether];
  std::uint16_t bits[4 * kTogether];
  float values[4 * kTogether];
  const std::int64_t most = kTogether / groups;
  for (std::int64_t begin = 0; begin < rows; begin += most) {
    const std::int64_t here = std::min(most, rows - begin), count = here * groups;
    for (std::int64_t r = 0; r < here; ++r) {
      const std::uint64_t start = first + static_cast<std::uint64_t>(begin + r) * row_stride;
      for (std::int64_t g = 0; g < groups; ++g) hashes[r * groups + g] = start + static_cast<std::uint64_t>(g);
    }
    for (std::int64_t g = 0; g < count; ++g) hashes[g] = mask_hash(key, hashes[g]);
    std::memcpy(bits, hashes, static_cast<std::size_t>(count) * sizeof(std::uint64_t));
    for (std::int64_t j = 0; j < 4 * count; ++j) values[j] = bits[j] < threshold ? 0.0f : scale;
    for (std::int64_t r = 0; r < here; ++r) {
      std::memcpy(mask + (begin + r) * width, values + r * 4 * groups,
                  static_cast<std::size_t>(4 * groups) * sizeof(float));
    }
  }
}

CHORUS_BEST_INSTRUCTIONS
void add(float* __restrict y, const float* __restrict x, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) y[j] += x[j];
}

CHORUS_BEST_INSTRUCTIONS
void multiply(float* __restrict y, const float* __restrict x, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) y[j] *= x[j];
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }
inline float hyperbolic(float x) { return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f); }

CHORUS_BEST_INSTRUCTIONS
void lstm_step(float* __restrict i, float* __restrict f, float* __restrict g, float* __restrict o,
               const float* __restrict before, float* __restrict c, float* __restrict h, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    i[j] = sigmoid(i[j]);
    f[j] = sigmoid(f[j]);
    g[j] = hyperbolic(g[j]);
    o[j] = sigmoid(o[j]);
    c[j] = f[j] * before[j] + i[j] * g[j];
    h[j] = o[j] * hyperbolic(c[j]);
  }
}

CHORUS_BEST_INSTRUCTIONS
void lstm_step_back(float* __restrict i, float* __restrict f, float* __restrict g, float* __restrict o,
                    const float* __restrict before, const float* __restrict c, const float* __restrict dh,
                    float* __restrict dc, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    const float t = hyperbolic(c[j]), all = dc[j] + dh[j] * o[j] * (1.0f - t * t);
    const float di = all * g[j], df = all * before[j], dg = all * i[j], out = dh[j] * t;
    dc[j] = all * f[j];
    i[j] = di * i[j] * (1.0f - i[j]);
    f[j] = df * f[j] * (1.0f - f[j]);
    g[j] = dg * (1.0f - g[j] * g[j]);
    o[j] = out * o[j] * (1.0f - o[j]);
  }
}

CHORUS_END_OF_FAST_LOOPS

}  // namespace

void fill_mask(const MaskRow& row, std::int64_t width, float* mask) {
  const std::int64_t groups = width / 4;
  const auto threshold = static_cast<std::uint32_t>(row.threshold);
  fill_groups(row.key, row.start / 4, groups, threshold, row.scale, mask);
  if (width % 4 == 0) return;
  float last[4];
  fill_groups(row.key, row.start / 4 + static_cast<std::uint64_t>(groups), 1, threshold, row.scale, last);
  std::copy(last, last + width % 4, mask + groups * 4);
}

void fill_masks(const MaskRow& first, std::int64_t rows, std::uint64_t row_stride, std::int64_t width, float* masks) {
  const std::int64_t groups = (width + 3) / 4;
  if (groups == 0) return;
  if (groups <= kTogether) {
    fill_short_rows(first.key, first.start / 4, row_stride / 4, rows, groups, width,
                    static_cast<std::uint32_t>(first.threshold), first.scale, masks);
    return;
  }
  MaskRow row = first;
  for (std::int64_t r = 0; r < rows; ++r, row.start += row_stride) fill_mask(row, width, masks + r * width);
}

void add_row(float* y, const float* x, std::int64_t count) { add(y, x, count); }

void mask_row(const MaskRow& row, std::int64_t width, const float* x, float* y) {
  constexpr std::int64_t kPiece = 1024;
  float mask[kPiece];
  for (std::int64_t begin = 0; begin < width; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, width - begin);
    MaskRow piece = row;
    piece.start += static_cast<std::uint64_t>(begin);
    fill_mask(piece, count, mask);
    product(x + begin, mask, y + begin, count);
  }
}

float residual_norm_row(const NormRow& row, const MaskRow& mask, std::int64_t width, double epsilon, float* scratch) {
  if (mask.threshold > 0) fill_mask(mask, width, scratch);
  if (row.x == nullptr) {
    check(mask.threshold == 0, "a norm of one row drops nothing");
    std::copy_n(row.f, width, row.normal);
  } else if (mask.threshold > 0) {
    add_masked(row.f, row.x, scratch, row.normal, width);
  } else {
    add_rows(row.f, row.x, row.normal, width);
  }
  if (row.sum != nullptr) std::copy_n(row.normal, width, row.sum);
  const auto n = static_cast<float>(width);
  subtract(row.normal, sum(row.normal, width) / n, width);
  const float variance = dot(row.normal, row.normal, width) / n;
  const auto inverse = static_cast<float>(1.0 / std::sqrt(static_cast<double>(variance) + epsilon));
  scale_and_shift(row.normal, inverse, row.weight, row.bias, row.y, width);
  return inverse;
}

void residual_norm_gradient_row(const NormGradRow& row, const MaskRow& mask, std::int64_t width, float* scratch) {
  if (row.dweight != nullptr) add_weight_gradients(row.dy, row.normal, row.dweight, row.dbias, width);
  product(row.dy, row.weight, scratch, width);
  const auto n = static_cast<float>(width);
  const float mean = sum(scratch, width) / n, slope = dot(scratch, row.normal, width) / n;
  norm_gradient(scratch, row.normal, row.inverse, mean, slope, row.dx, width);
  if (row.dsum != nullptr) add(row.dx, row.dsum, width);
  if (mask.threshold == 0) return;
  fill_mask(mask, width, scratch);
  product(row.dx, scratch, row.df, width);
}

void gelu_row(const float* x, float* y, std::int64_t count, bool by_tanh) {
  (by_tanh ? gelu_by_tanh : gelu_by_erf)(x, y, count);
}

void gelu_slope_row(const float* x, float* y, float* slope, std::int64_t count, bool by_tanh) {
  (by_tanh ? gelu_slope_by_tanh : gelu_slope_by_erf)(x, y, slope, count);
}

void multiply_row(float* y, const float* x, std::int64_t count) { multiply(y, x, count); }

void product_row(const float* a, const float* b, float* c, std::int64_t count) { product(a, b, c, count); }

ExpSum exp_sum_row(const float* x, std::int64_t count) {
  const float top = greatest(x, count);
  return {top, sum_of_exponentials(x, top, count)};
}

CrossEntropy cross_entropy_row(float* x, std::int64_t count, std::int64_t label) {
  const float top = greatest(x, count), chosen = x[label];
  const float sum = sum_as_exponentials(x, top, x, count);
  x[label] -= sum;
  return {std::log(sum) + (top - chosen), sum};
}

CrossEntropy cross_entropy_row(const float* x, std::int64_t count, std::int64_t label, std::byte* slopes) {
  constexpr std::int64_t kPiece = 1024;
  float piece[kPiece], sum = 0;
  const float top = greatest(x, count), chosen = x[label];
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t here = std::min(kPiece, count - begin);
    sum += sum_as_exponentials(x + begin, top, piece, here);
    to_bfloat16({piece, static_cast<std::size_t>(here)}, slopes + 2 * begin);
  }
  piece[0] = exponential(chosen - top) - sum;
  to_bfloat16({piece, 1}, slopes + 2 * label);
  return {std::log(sum) + (top - chosen), sum};
}

void cross_entropy_gradient_row(const float* x, std::int64_t count, std::int64_t label, const ExpSum& sum, float factor,
                                float* dx) {
  scaled_exponentials(x, sum.top, factor / sum.sum, dx, count);
  dx[label] -= factor;
}

void softmax_row(float* x, std::int64_t count, std::int64_t width, float scale) {
  softmax_of(x, scale, count);
  std::fill(x + count, x + width, 0.0f);
}

void softmax_gradient_row(const float* p, float* d, std::int64_t width) { softmax_gradient_of(p, d, width); }

void lstm_row(float* gates, const float* before, float* c, float* h, std::int64_t hidden) {
  lstm_step(gates, gates + hidden, gates + 2 * hidden, gates + 3 * hidden, before, c, h, hidden);
}

void lstm_gradient_row(float* gates, const float* before, const float* c, const float* dh, float* dc,
                       std::int64_t hidden) {
  lstm_step_back(gates, gates + hidden, gates + 2 * hidden, gates + 3 * hidden, before, c, dh, dc, hidden);
}

}  // namespace chorus::inline ops
