#pragma once

#include <torch/types.h>

#include <cstdint>

namespace chorus {

/// The mean cross entropy of each client's logits [C, M, V] where labels [C, M] are not `ignored`.
struct GpuLoss {
  at::Tensor loss;    ///< [C] float32
  at::Tensor logs;    ///< [C * M] of the sums of exponentials
  at::Tensor counts;  ///< [C] labels that count, at least 1
};
bool gpu_loss_can(const at::Tensor& logits);
GpuLoss gpu_cross_entropy(const at::Tensor& logits, const at::Tensor& labels, std::int64_t ignored);
at::Tensor gpu_cross_entropy_gradient(const at::Tensor& gradient, const at::Tensor& logits, const at::Tensor& labels,
                                      const GpuLoss& forward, std::int64_t ignored);

}  // namespace chorus
