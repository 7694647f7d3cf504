#pragma once

#include "application/models/ops/dropout_args.h"

namespace chorus::inline ops {

/// Query rows per block of the forward kernel.
inline constexpr u32 kAttentionRows = 64;

/// The sequences. places [7, N] (Packing::places): for each sequence its client, its index there, the rows of its first
/// query and key, and their counts; then all sequences sorted by length, so that long ones start early.
struct AttentionShape {
  const i64* places;
  i64 q_rows, k_rows;  ///< of all clients
  u32 heads, causal;
  float scale;
};

/// Tensors of bfloat16 or float32 rows; a stride is the distance between rows. logs: log2 of each query's sum of
/// exponentials, per head; null if there will be no backward pass.
struct AttentionForwardArgs {
  const void *q, *k, *v;
  i64 q_stride, k_stride;
  void* out;
  float* logs;
  AttentionShape shape;
  MaskArgs mask;
};

struct AttentionGradientArgs {
  const void *q, *k, *v;
  i64 q_stride, k_stride;
  const void *out, *dout;
  const float* logs;
  float* products;  ///< scratch for dot products, like logs
  float* sums;      ///< scratch, like out in float32
  void *dq, *dk, *dv;
  i64 dq_stride, dk_stride;
  AttentionShape shape;
  MaskArgs mask;
};

}  // namespace chorus::inline ops
