#pragma once

#include <torch/types.h>

#include <array>

namespace chorus::inline ops {

/// Sums gradients of small parameters on a GPU, in a fixed order, and accumulates them.

/// gradients[i] [C, H] += sums[i] over blocks, for sums [1 to 3, C, blocks, H]; an undefined gradient is skipped.
void fold_sums_gpu(const at::Tensor& sums, const std::array<at::Tensor, 3>& gradients);
/// gradients [C, H] += x [C, T, H] summed over rows.
void column_sums_gpu(const at::Tensor& x, const at::Tensor& gradients);

}  // namespace chorus::inline ops
