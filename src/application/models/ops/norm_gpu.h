#pragma once

#include <optional>

#include "application/models/ops/dropout.h"

namespace chorus::inline ops {

/// On a GPU: norm((f + f_bias) * mask + x) with weight and bias [H] or [C, H]. Activations are float32 or bfloat16.
struct NormInputGpu {
  at::Tensor f;
  at::Tensor f_bias;  ///< [H] or [C, H], or undefined
  at::Tensor x;       ///< undefined: norm of f alone
  at::Tensor weight, bias;
  Dropout::Site site = {};
  double epsilon = 0;
  bool differentiable = true;  ///< otherwise only y is computed
};
struct NormGpu {
  at::Tensor y, normal;  ///< [C, T, H]
  at::Tensor inverse;    ///< [C * T] float32
};
/// The widest row of the kernels, and their option G for a width: few values, so that few variants are compiled.
inline constexpr std::int64_t kWidestNorm = 2048;
std::int64_t norm_gpu_groups(std::int64_t width);
/// Whether the kernels support rows like these.
bool norm_gpu_fits(const at::Tensor& f);
NormGpu residual_norm_gpu(const NormInputGpu& input, at::ScalarType type);

struct NormGradientGpu {
  at::Tensor df, dx;
  at::Tensor sums;  ///< [3, C, blocks, H]: of weight, bias and f_bias; or undefined
};
/// The types of the wanted gradients; a gradient without a type is not computed.
struct NormWishGpu {
  std::optional<at::ScalarType> f, x;
  bool sums = false;
};
NormGradientGpu residual_norm_gradient_gpu(const at::Tensor& dy, const NormGpu& forward, const at::Tensor& weight,
                                           const Dropout::Site& site, const NormWishGpu& wish);

}  // namespace chorus::inline ops
