#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline ops {

/// Rows x [C, rows, width], width a multiple of 4, and a bias that is added to them. blockIdx.y is the client; the
/// threads of `chunks` neighbouring blocks take a row.
struct BiasArgs {
  const void* x;
  ClientRow bias;
  void* y;  ///< x + bias or gelu(x + bias); may be x
  u32 rows, width, chunks;
};

/// dx = dy * gelu'(x + bias), in blocks of block_rows rows, and the sums of dx over those: sums [C, blocks, width], or
/// null.
struct BiasGeluGradientArgs {
  const void* x;
  ClientRow bias;
  const void* dy;
  void* dx;
  float* sums;
  u32 rows, width, chunks, block_rows;
};

}  // namespace chorus::inline ops
