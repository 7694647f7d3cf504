#pragma once

#include "application/models/ops/attention.h"

namespace chorus::inline ops {

/// Attention within packed sequences on a GPU, without padding and with the same masks as the other backends: for
/// bfloat16 tensors, and for float32 tensors if matmuls use TF32 (core/device/tf32.h). Accumulates in float32.

/// Whether the kernels support queries like `q` and heads of this width.
bool attention_gpu_fits(const at::Tensor& q, std::int64_t width, const Packing& keys, const AttentionSpec& spec);

at::Tensor attention_gpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                         const Packing& keys, const AttentionSpec& spec, const Dropout::Site& site);

/// The same for queries, keys and values in one tensor, qkv [C, T, 3 H], so that their gradient is one tensor, too.
at::Tensor self_attention_gpu(const at::Tensor& qkv, const Packing& packing, const AttentionSpec& spec,
                              const Dropout::Site& site);

}  // namespace chorus::inline ops
