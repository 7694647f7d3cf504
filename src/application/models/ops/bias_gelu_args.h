#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline ops {

/// Adds a bias to rows x [C, rows, width], width a multiple of 4. blockIdx.y is the client; `chunks` neighbouring
/// blocks share a row.
struct BiasArgs {
  const void* x;
  ClientRow bias;
  void* y;  ///< x + bias or gelu(x + bias); may be x
  u32 rows, width, chunks;
};

/// dx = dy * gelu'(x + bias), in blocks of block_rows rows, and the sums of dx over each block: sums [C, blocks,
/// width], or null.
struct BiasGeluGradientArgs {
  const void* x;
  ClientRow bias;
  const void* dy;
  void* dx;
  float* sums;
  u32 rows, width, chunks, block_rows;
};

}  // namespace chorus::inline ops
