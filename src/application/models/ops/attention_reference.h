#pragma once

#include "application/models/ops/attention.h"

namespace chorus::inline ops {

/// Attention by batched matmuls over padded sequences, for every device, type and spec.
at::Tensor attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                               const Packing& keys, const AttentionSpec& spec, Dropout& dropout);

/// softmax(scale * q k^T + bias), where `hidden` scores (bool, or undefined) count as minus infinity. q is [N, heads,
/// Lq, width], k is [N, heads, prefix + Lk, width].
at::Tensor attention_weights(const at::Tensor& q, const at::Tensor& k, const at::Tensor& hidden,
                             const AttentionSpec& spec);

}  // namespace chorus::inline ops
