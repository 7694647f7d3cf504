#pragma once

#include "application/models/ops/dropout_args.h"

namespace chorus::inline ops {

/// y = normal * weight + bias, normal = (s - mean) / deviation, s = (f + f_bias) * mask + x, for rows of `width`
/// elements, a multiple of 4. inverse = 1 / deviation of each row. normal and inverse are for the backward pass, or
/// null.
struct ResidualNormArgs {
  const void *f, *x;  ///< x null: norm of f alone
  ClientRow f_bias, weight, bias;
  void *normal, *y;
  float* inverse;
  MaskArgs mask;
  u32 rows, width;  ///< per client
  u32 total;        ///< rows of all clients
  float epsilon;
};

/// Its backward pass. sums [3, clients, blocks, width]: gradients of weight, bias and f_bias, summed over blocks of
/// block_rows rows.
struct ResidualNormGradientArgs {
  const void *dy, *normal;
  const float* inverse;
  ClientRow weight;
  void *df, *dx;  ///< or null
  float* sums;    ///< or null
  MaskArgs mask;
  u32 clients, rows, width, block_rows;
};

}  // namespace chorus::inline ops
