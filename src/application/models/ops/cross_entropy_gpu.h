#pragma once

#include <torch/types.h>

#include <cstdint>

namespace chorus::inline ops {

/// On a GPU: the mean cross entropy of each client's logits [C, M, V] over labels [C, M] that are not `ignored`.
struct CrossEntropyResult {
  at::Tensor loss;    ///< [C] float32
  at::Tensor logs;    ///< [C * M] logs of the sums of exponentials
  at::Tensor counts;  ///< [C] counted labels, at least 1
};
bool cross_entropy_gpu_fits(const at::Tensor& logits);
CrossEntropyResult cross_entropy_gpu(const at::Tensor& logits, const at::Tensor& labels, std::int64_t ignored);
at::Tensor cross_entropy_gradient_gpu(const at::Tensor& gradient, const at::Tensor& logits, const at::Tensor& labels,
                                      const CrossEntropyResult& forward, std::int64_t ignored);

}  // namespace chorus::inline ops
