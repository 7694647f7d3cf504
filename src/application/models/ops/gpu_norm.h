#pragma once

#include <optional>

#include "application/models/ops/dropout.h"

namespace chorus {

/// What a normalisation is of: norm((f + f_bias) * mask + x) with weight and bias [H] or [C, H].
struct GpuNormInput {
  at::Tensor f;
  at::Tensor f_bias;  ///< [H] or [C, H], or undefined
  at::Tensor x;       ///< undefined: f alone
  at::Tensor weight, bias;
  Dropout::Site site = {};
  double epsilon = 0;
};
struct GpuNorm {
  at::Tensor y, normal;  ///< [C, T, H]
  at::Tensor inverse;    ///< [C * T] float32
};
/// Whether kernels take rows so wide.
bool gpu_norm_can(const at::Tensor& f);
GpuNorm gpu_residual_norm(const GpuNormInput& input, at::ScalarType type);

struct GpuNormGradient {
  at::Tensor df, dx;
  at::Tensor sums;  ///< [3, C, blocks, H]: of weight, bias and f_bias; undefined if not wanted
};
/// What the gradients are to be; undefined types are not wanted.
struct GpuNormWish {
  std::optional<at::ScalarType> f, x;
  bool sums = false;
};
GpuNormGradient gpu_residual_norm_gradient(const at::Tensor& dy, const GpuNorm& forward, const at::Tensor& weight,
                                           const Dropout::Site& site, const GpuNormWish& wish);

}  // namespace chorus
