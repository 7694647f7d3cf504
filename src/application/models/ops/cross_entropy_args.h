#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline ops {

/// The cross entropy of each row of logits [rows, width] with its label, 0 if the label is `ignored`; and the log of
/// the row's sum of exponentials.
struct RowLossesArgs {
  const void* logits;
  const i64* labels;
  float *logs, *losses;
  i64 ignored;
  u32 width;
};

/// Their mean over each client's counted labels, and how many are counted (at least 1).
struct MeanLossesArgs {
  const float* losses;
  const i64* labels;
  float *loss, *counts;  ///< [C]
  i64 ignored;
  u32 rows;  ///< per client
};

/// The gradient of the logits from the gradient of the means.
struct LossGradientArgs {
  const float* gradient;  ///< [C]
  const void* logits;
  const i64* labels;
  const float *logs, *counts;
  void* dlogits;
  i64 ignored;
  u32 rows, width;
};

}  // namespace chorus::inline ops
