#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline ops {

/// Gradients of small parameters [C, width], with a stride between clients; null: not wanted.
struct GradientRow {
  float* data;
  i64 stride;
};

/// gradients[w] += the sums over blocks of sums [3, clients, blocks, width].
struct FoldSumsArgs {
  const float* sums;
  GradientRow gradients[3];
  u32 clients, blocks, width;
};

/// gradient += the sum over rows of x [C, rows, width].
struct ColumnSumsArgs {
  const void* x;
  GradientRow gradient;
  u32 rows, width;
};

}  // namespace chorus::inline ops
