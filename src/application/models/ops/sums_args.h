#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline ops {

/// Gradients of small parameters [C, width], with a stride between clients; or null.
struct GradientRow {
  float* data;
  i64 stride;
};

/// gradients[w] += sums [3, clients, blocks, width] summed over blocks.
struct FoldSumsArgs {
  const float* sums;
  GradientRow gradients[3];
  u32 clients, blocks, width;
};

/// sums [C, blocks, width]: x [C, rows, width] summed over blocks of block_rows rows. `chunks` neighbouring thread
/// blocks share a row.
struct ColumnSumsArgs {
  const void* x;
  float* sums;
  u32 rows, width, chunks, block_rows;
};

}  // namespace chorus::inline ops
