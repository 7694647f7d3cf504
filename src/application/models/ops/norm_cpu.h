#pragma once

#include "application/models/ops/dropout.h"

namespace chorus::inline ops {

/// On a CPU: norm(f * mask + x) with weight and bias [H] or [C, H]; f and x are [C, T, H] float32.
struct NormInputCpu {
  at::Tensor f;
  at::Tensor x;  ///< undefined: norm of f alone
  at::Tensor weight, bias;
  Dropout::Site site = {};
  double epsilon = 0;
  at::Tensor sum = {};  ///< f * mask + x is written to it if defined
};
struct NormCpu {
  at::Tensor y, normal;  ///< [C, T, H]
  at::Tensor inverse;    ///< [C * T]
};
NormCpu residual_norm_cpu(const NormInputCpu& input);

/// The gradients of f and x from those of y and, if defined, of `sum`. Adds those of weight and bias to `dweight` and
/// `dbias` [C, H] if defined.
struct NormGradientCpu {
  at::Tensor df, dx;
};
NormGradientCpu residual_norm_gradient_cpu(const at::Tensor& gradient, const at::Tensor& sum_gradient,
                                           const NormCpu& forward, const at::Tensor& weight, const Dropout::Site& site,
                                           const at::Tensor& dweight, const at::Tensor& dbias);

}  // namespace chorus::inline ops
