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

/// gradient += x [C, rows, width] summed over rows.
struct ColumnSumsArgs {
  const void* x;
  GradientRow gradient;
  u32 rows, width;
};

}  // namespace chorus::inline ops
