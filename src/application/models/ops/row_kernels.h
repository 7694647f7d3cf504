#pragma once

#include <cstddef>
#include <cstdint>

namespace chorus::inline ops {

/// Fused CPU kernels on rows of floats: they work while a row is in the cache, where LibTorch's operators make several
/// passes over large tensors. The operator that uses a kernel also has a reference, and a test compares the two. Rows
/// are independent, so results do not depend on how they are distributed over threads.

/// Which elements of a row are dropped: element j by 16 bits of hash(key, start + j); `start` is a multiple of 4.
struct MaskRow {
  std::uint64_t key = 0, start = 0;
  std::uint64_t threshold = 0;  ///< dropped if the bits are below; 0: nothing is dropped
  float scale = 1;              ///< of kept elements
};

/// mask[j] = 0 or scale.
void fill_mask(const MaskRow& row, std::int64_t width, float* mask);
/// Contiguous masks of several rows. `start` grows by `row_stride`, a multiple of 4, per row. May write up to three
/// floats past the end.
void fill_masks(const MaskRow& first, std::int64_t rows, std::uint64_t row_stride, std::int64_t width, float* masks);
/// y = x * mask; x and y must not overlap.
void mask_row(const MaskRow& row, std::int64_t width, const float* x, float* y);

/// y += x; no overlap.
void add_row(float* y, const float* x, std::int64_t count);

/// Layer normalisation of a residual sum: s = f * mask + x,  normal = (s - mean) / deviation,  y = normal * weight +
/// bias. `scratch` has `width` floats. Returns 1 / deviation. Without x (null) the norm is of f alone.
struct NormRow {
  const float *f, *x, *weight, *bias;
  float *normal, *y;
  float* sum;  ///< s, or null
};
float residual_norm_row(const NormRow& row, const MaskRow& mask, std::int64_t width, double epsilon, float* scratch);

/// Backward pass: dx and df from dy and dsum; adds to dweight and dbias.
struct NormGradRow {
  const float *dy, *dsum;  ///< dsum may be null: s has no other use
  const float *normal, *weight;
  float inverse;
  float *dx, *df;          ///< may be the same if nothing is dropped
  float *dweight, *dbias;  ///< or null
};
void residual_norm_gradient_row(const NormGradRow& row, const MaskRow& mask, std::int64_t width, float* scratch);

/// GELU: y = x Φ(x), or its tanh approximation; and its derivative, which may overwrite x.
void gelu_row(const float* x, float* y, std::int64_t count, bool by_tanh);
void gelu_slope_row(const float* x, float* y, float* slope, std::int64_t count, bool by_tanh);

/// y *= x; no overlap.
void multiply_row(float* y, const float* x, std::int64_t count);
/// c = a * b; no overlap.
void product_row(const float* a, const float* b, float* c, std::int64_t count);

/// top = max_j x_j, sum = sum_j exp(x_j - top). The cross entropy is log(sum) + top - x[label].
struct ExpSum {
  float top, sum;
};
ExpSum exp_sum_row(const float* x, std::int64_t count);
/// Cross entropy and sum. x becomes the gradient times the sum; the second overload leaves x unchanged and writes that
/// product to `slopes` as bfloat16.
struct CrossEntropy {
  float loss, sum;
};
CrossEntropy cross_entropy_row(float* x, std::int64_t count, std::int64_t label);
CrossEntropy cross_entropy_row(const float* x, std::int64_t count, std::int64_t label, std::byte* slopes);
/// The gradient of the cross entropy, times `factor`.
void cross_entropy_gradient_row(const float* x, std::int64_t count, std::int64_t label, const ExpSum& sum, float factor,
                                float* dx);

/// One LSTM step of one sequence. Applies the activations to gates [4h], in the order i, f, g, o, in place; then
/// c = f * before + i * g, h = o * tanh(c).
void lstm_row(float* gates, const float* before, float* c, float* h, std::int64_t hidden);
/// Backward pass from dh and dc: gates become the gradients of the pre-activations, dc the gradient of `before`.
void lstm_gradient_row(float* gates, const float* before, const float* c, const float* dh, float* dc,
                       std::int64_t hidden);

/// x[0, count) becomes softmax(scale * x), x[count, width) becomes 0.
void softmax_row(float* x, std::int64_t count, std::int64_t width, float scale);
/// d, the gradient of the weights, becomes that of the scores: p * (d - sum_j d_j p_j).
void softmax_gradient_row(const float* p, float* d, std::int64_t width);

}  // namespace chorus::inline ops
