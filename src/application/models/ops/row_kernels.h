#pragma once

#include <cstddef>
#include <cstdint>

namespace chorus::inline ops {

/// Arithmetic on rows of floats in plain memory: what LibTorch's operators do in several passes over large tensors is
/// done here while a row is in the cache. Each has a reference beside it in the operator that uses it, and is tested
/// against it. Rows do not depend on each other, so a result does not depend on how they are shared out to threads.

/// Which elements of a row are dropped: element j by 16 bits of hash(key, start + j); `start` is a multiple of 4.
struct MaskRow {
  std::uint64_t key = 0, start = 0;
  std::uint64_t threshold = 0;  ///< dropped when the bits are below; 0: nothing is
  float scale = 1;              ///< of what is kept
};

/// mask[j] = 0 or scale.
void fill_mask(const MaskRow& row, std::int64_t width, float* mask);
/// Masks of rows end to end; a row starts `apart`, a multiple of 4, after the one before. Up to three floats after the
/// last may be written, too.
void fill_masks(const MaskRow& first, std::int64_t rows, std::uint64_t apart, std::int64_t width, float* masks);
/// y = x * mask; the two are different rows.
void mask_row(const MaskRow& row, std::int64_t width, const float* x, float* y);

/// y += x; two rows.
void add_row(float* y, const float* x, std::int64_t count);

/// A layer normalisation of a sum: s = f * mask + x,  normal = (s - mean) / deviation,  y = normal * weight + bias.
/// `scratch` has `width` floats. Returns 1 / deviation. Without x (null) the norm is of f alone.
struct NormRow {
  const float *f, *x, *weight, *bias;
  float *normal, *y;
  float* sum;  ///< s; null: not wanted
};
float residual_norm_row(const NormRow& row, const MaskRow& mask, std::int64_t width, double epsilon, float* scratch);

/// Its gradients from dy, and from that of s: of x, of f, and, added to what is there, of weight and bias.
struct NormGradRow {
  const float *dy, *dsum;  ///< dsum null: s had no other use
  const float *normal, *weight;
  float inverse;
  float *dx, *df;          ///< may be the same when nothing is dropped
  float *dweight, *dbias;  ///< null: not wanted
};
void residual_norm_gradient_row(const NormGradRow& row, const MaskRow& mask, std::int64_t width, float* scratch);

/// y = gelu(x): x times the normal distribution's share below x, or its approximation by a hyperbolic tangent. And its
/// slope there, which may take the place of x.
void gelu_row(const float* x, float* y, std::int64_t count, bool by_tanh);
void gelu_slope_row(const float* x, float* y, float* slope, std::int64_t count, bool by_tanh);

/// y *= x; two rows.
void multiply_row(float* y, const float* x, std::int64_t count);
/// c = a * b; three rows.
void product_row(const float* a, const float* b, float* c, std::int64_t count);

/// The largest of a row, and sum_j exp(x_j - top): a cross entropy is log(sum) + top - x[label].
struct ExpSum {
  float top, sum;
};
ExpSum exp_sum_row(const float* x, std::int64_t count);
/// That cross entropy, and the sum; x becomes its gradient times the sum, or, the second one, what is rounded of that.
struct CrossEntropy {
  float loss, sum;
};
CrossEntropy cross_entropy_row(float* x, std::int64_t count, std::int64_t label);
CrossEntropy cross_entropy_row(const float* x, std::int64_t count, std::int64_t label, std::byte* halves);
/// The gradient of that cross entropy, times `factor`.
void cross_entropy_gradient_row(const float* x, std::int64_t count, std::int64_t label, const ExpSum& sum, float factor,
                                float* dx);

/// One step of an LSTM's row: gates [4h] in the order i, f, g, o become what they let through, and
/// c = f * before + i * g, h = o * tanh(c).
void lstm_row(float* gates, const float* before, float* c, float* h, std::int64_t hidden);
/// Back: gates become their gradients (before the activation) and dc the one of `before`, from dh and dc.
void lstm_gradient_row(float* gates, const float* before, const float* c, const float* dh, float* dc,
                       std::int64_t hidden);

/// x[0, count) becomes softmax(scale * x), what is beyond up to `width` 0.
void softmax_row(float* x, std::int64_t count, std::int64_t width, float scale);
/// d (of the weights) becomes the gradient of the scores: p * (d - sum_j d_j p_j).
void softmax_gradient_row(const float* p, float* d, std::int64_t width);

}  // namespace chorus::inline ops
