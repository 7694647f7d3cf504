#pragma once

#include "application/models/ops/dropout_args.h"

namespace chorus::inline ops {

/// y = normal * weight + bias, normal = (s - mean) / deviation, s = (f + f_bias) * mask + x, for rows of `width`
/// elements, a multiple of 4. inverse = 1 / deviation of each row.
struct ResidualNormArgs {
  const void *f, *x;  ///< x null: f alone
  ClientRow f_bias, weight, bias;
  void *normal, *y;
  float* inverse;
  MaskArgs mask;
  u32 rows, width;  ///< of a client
  u32 total;        ///< rows of all clients
  float epsilon;
};

/// Its gradients. sums [3, clients, blocks, width]: of weight, bias and f_bias over blocks of block_rows rows.
struct ResidualNormGradientArgs {
  const void *dy, *normal;
  const float* inverse;
  ClientRow weight;
  void *df, *dx;  ///< null: not wanted
  float* sums;    ///< null: not wanted
  MaskArgs mask;
  u32 clients, rows, width, block_rows;
};

}  // namespace chorus::inline ops
