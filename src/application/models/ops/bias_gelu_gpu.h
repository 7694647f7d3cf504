#pragma once

#include <torch/types.h>

namespace chorus::inline ops {

/// Biases and GELU on a GPU, for x [C, T, H] and a bias [H], [C, H] or undefined.

/// Whether the kernels support such rows.
bool bias_gpu_fits(const at::Tensor& x);

/// x += bias, in place.
void add_bias_gpu(const at::Tensor& x, const at::Tensor& bias);
/// x = gelu(x + bias), in place.
void add_bias_then_gelu_gpu(const at::Tensor& x, const at::Tensor& bias, bool by_tanh);
/// gelu(x + bias).
at::Tensor bias_gelu_gpu(const at::Tensor& x, const at::Tensor& bias, bool by_tanh);
/// The gradient of x. Adds that of the bias [C, H] to `bias_gradient` if defined.
at::Tensor bias_gelu_gradient_gpu(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& dy, bool by_tanh,
                                  const at::Tensor& bias_gradient);

}  // namespace chorus::inline ops
