#pragma once

#include "application/models/ops/dropout.h"

namespace chorus::inline ops {

/// softmax(scale * scores) over the keys each query attends to, and that times a dropout mask: attention weights in one
/// pass. Scores are [N, heads, Lq, Lk], padded; weights past a sequence's end are 0.
struct SoftmaxCall {
  at::Tensor client_of, sequence_of;  ///< [N] int64: the client of a sequence and its index there
  at::Tensor queries_of, keys_of;     ///< [N] int64: tokens
  bool causal = false;
  double scale = 1;
  Dropout::Site site = {};
};

/// Whether the kernels support queries [N, heads, Lq, width] and this many keys.
bool softmax_gpu_fits(const at::Tensor& queries, std::int64_t longest_key);

struct SoftmaxResult {
  at::Tensor weights, masked;  ///< like the scores; the same tensor if nothing is dropped
};
SoftmaxResult softmax_gpu(const at::Tensor& scores, const SoftmaxCall& call);
/// The gradient of the scores from that of `masked`.
at::Tensor softmax_gradient_gpu(const at::Tensor& gradient, const at::Tensor& weights, const SoftmaxCall& call);

}  // namespace chorus::inline ops
