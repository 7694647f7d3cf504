#pragma once

#include "application/models/ops/attention.h"

namespace chorus::inline ops {

/// Attention on a CPU without padding: one sequence and head at a time, directly on the packed tokens. Scores, softmax
/// and dropout of a head stay in the cache. The weights are kept for the backward pass; the masks are recomputed. Equal
/// to attention_reference.h up to rounding.
bool attention_cpu_fits(const at::Tensor& q, const Packing& keys, const AttentionSpec& spec);
at::Tensor attention_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                         const Packing& keys, const AttentionSpec& spec, const Dropout::Site& site);
/// The same for queries, keys and values in one tensor, qkv [C, T, 3 H], so that their gradient is one tensor, too.
at::Tensor self_attention_cpu(const at::Tensor& qkv, const Packing& packing, const AttentionSpec& spec,
                              const Dropout::Site& site);

}  // namespace chorus::inline ops
