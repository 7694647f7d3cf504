#pragma once

#include "application/models/ops/attention.h"

namespace chorus {

/// Attention within packed sequences on a GPU, in bfloat16 with float32 sums and without padding; the same masks as
/// everywhere.

/// Whether this call can be computed so.
bool gpu_attention_can(const at::Tensor& q, const Packing& keys, const AttentionSpec& spec);

at::Tensor gpu_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                         const Packing& keys, const AttentionSpec& spec, const Dropout::Site& site);

}  // namespace chorus
