#pragma once

#include "application/models/ops/attention.h"

namespace chorus::inline ops {

/// Attention on a CPU without padding: one sequence and head at a time, read from and written to where the packed
/// tokens lie. Scores, softmax and dropout of a head stay in the cache; the weights are kept for the gradient, the
/// masks are computed again. Equal to attention_reference.h up to rounding.
bool attention_cpu_fits(const at::Tensor& q, const Packing& keys, const AttentionSpec& spec);
at::Tensor attention_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                         const Packing& keys, const AttentionSpec& spec, const Dropout::Site& site);
/// The same with queries, keys and values side by side, qkv [C, T, 3 H]; so their gradient is one tensor, too.
at::Tensor self_attention_cpu(const at::Tensor& qkv, const Packing& packing, const AttentionSpec& spec,
                              const Dropout::Site& site);

}  // namespace chorus::inline ops
