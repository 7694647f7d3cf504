#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline federated {

/// out = sum_k weights[k] * terms[k] + sum, elementwise; a null term or sum counts as 0. `sum` may be `out`.
struct WeightedSumArgs {
  float* out;
  const float* terms[8];
  float weights[8];
  const float* sum;
  i64 count;
};

}  // namespace chorus::inline federated
