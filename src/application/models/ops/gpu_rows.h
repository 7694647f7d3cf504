#pragma once

#include <array>

#include "application/models/ops/dropout.h"

namespace chorus {

/// The kernels of row_kernels.h for a GPU: the same masks to the bit, sums in another order. Activations are float32 or
/// bfloat16 (Params::with_shadow), sums float32.

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

/// Gradients [C, H], added to what is there: of up to three sums [3, C, blocks, H], where defined, and of rows [C, T,
/// H].
void gpu_fold_sums(const at::Tensor& sums, const std::array<at::Tensor, 3>& gradients);
void gpu_column_sums(const at::Tensor& rows, const at::Tensor& gradients);
/// Gradients [C, V, H] of tables from those of the rows [C, T, H] that ids [C, T] looked up, but for row `padding`.
void gpu_lookup_gradient(const at::Tensor& rows, const at::Tensor& ids, const at::Tensor& gradients,
                         std::int64_t padding);

/// x += bias, in place; and gelu(x + bias): x [C, T, H] with H a multiple of 4, bias [H], [C, H] or undefined.
void gpu_add_bias(const at::Tensor& x, const at::Tensor& bias);
at::Tensor gpu_bias_gelu(const at::Tensor& x, const at::Tensor& bias, bool by_tanh);
/// Of x; that of the bias [C, H] is added to `bias_gradient` where it is defined.
at::Tensor gpu_bias_gelu_gradient(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& dy, bool by_tanh,
                                  const at::Tensor& bias_gradient);

}  // namespace chorus
