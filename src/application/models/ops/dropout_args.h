#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline ops {

/// The dropout masks of one site of the network (dropout.h). With threshold 0 nothing is dropped.
struct MaskArgs {
  const i64* seeds;  ///< one per client
  u64 call;
  u32 threshold;
  float scale;
  const i64* rows;  ///< [C, rows]: the row of its client whose mask each row gets; null: its own
};

/// y = x * mask for x [C, rows, width]; `total` groups of four neighbouring elements.
struct MaskHiddenArgs {
  const void* x;
  void* y;
  MaskArgs mask;
  u32 rows, width, total;
};

/// The same for attention weights x [N, heads, queries, width].
struct MaskWeightsArgs {
  const void* x;
  void* y;
  MaskArgs mask;
  const i64 *client_of, *sequence_of;  ///< [N]
  u32 heads, queries, width, total;
};

}  // namespace chorus::inline ops
