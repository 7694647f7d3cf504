#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline optim {

/// An AdamW step for all clients; blockIdx.y is the client. Rows have strides.
struct AdamWArgs {
  float* values;
  const float* before;    ///< the values to step from; may be `values`
  const void* gradients;  ///< float32 or bfloat16
  float *first, *second;  ///< moments
  u16* shadow;            ///< bfloat16 shadow copy of the values, or null
  i64 values_stride, before_stride, gradients_stride, moments_stride, shadow_stride;
  const float* decay_mask;  ///< per element, or null
  const float* scale;       ///< of the gradients, per client; or null
  /// Step size, 1 / sqrt(1 - beta2^t) and learning rate * weight decay: per client [3, C], or null if all clients share
  /// the values below.
  const float* rates;
  float size, root, shrink;
  float beta1, gain1, beta2, gain2, epsilon;  ///< gain = 1 - beta
  i64 count;                                  ///< elements per client
  i64 quads;                                  ///< aligned groups of four elements, from the first on
  i64 known;  ///< elements with moments, a multiple of 4 or past the end; other moments are 0
  i32 keep;   ///< whether to write moments
};

}  // namespace chorus::inline optim
