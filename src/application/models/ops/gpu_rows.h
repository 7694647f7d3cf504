#pragma once

#include "application/models/ops/dropout.h"

namespace chorus {

/// The kernels of row_kernels.h for a GPU: the same masks to the bit, sums in another order. Activations are float32 or
/// bfloat16 (under MixedPrecision), sums and norms float32.

/// Whether x can be given to them.
bool gpu_rows_can(const at::Tensor& x);

/// x [C, rows, width] * mask.
at::Tensor gpu_mask_hidden(const at::Tensor& x, const Dropout::Site& site);
/// x [N, heads, queries, keys] * mask; whose the sequences are, and which of theirs: [N] int64.
at::Tensor gpu_mask_weights(const at::Tensor& x, const Dropout::Site& site, const at::Tensor& client_of,
                            const at::Tensor& sequence_of);

/// softmax(scale * scores) over what each query sees, and that times a mask: the weights of attention. Scores are
/// [N, heads, Lq, Lk], padded; beyond a sequence's end the weights are 0.
struct GpuSoftmaxCall {
  at::Tensor client_of, sequence_of, queries_of, keys_of;  ///< [N] int64: whose, which, and how many tokens each has
  bool causal = false;
  double scale = 1;
  Dropout::Site site = {};
};
struct GpuSoftmax {
  at::Tensor weights, masked;  ///< as the scores; the same tensor when nothing is dropped
};
GpuSoftmax gpu_attention_softmax(const at::Tensor& scores, const GpuSoftmaxCall& call);
/// The gradient of the scores from that of `masked`.
at::Tensor gpu_attention_softmax_gradient(const at::Tensor& gradient, const at::Tensor& weights,
                                          const GpuSoftmaxCall& call);

struct GpuNorm {
  at::Tensor y, normal, inverse;  ///< float32: [C, T, H] twice, [C * T]
};
/// norm(f * mask + x) with weight and bias [H] or [C, H]; norm(f) where x is undefined.
GpuNorm gpu_residual_norm(const at::Tensor& f, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          const Dropout::Site& site, double epsilon);

struct GpuNormGradient {
  at::Tensor df, dx;
  at::Tensor sums;  ///< [2, C, blocks, H]: of weight and bias, to be summed over the blocks; undefined if not wanted
};
/// `type_f`, `type_x`: what the gradients are to be.
GpuNormGradient gpu_residual_norm_gradient(const at::Tensor& dy, const GpuNorm& forward, const at::Tensor& weight,
                                           const Dropout::Site& site, bool want_weights, at::ScalarType type_f,
                                           at::ScalarType type_x);

}  // namespace chorus
