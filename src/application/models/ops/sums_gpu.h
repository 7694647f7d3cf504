#pragma once

#include <torch/types.h>

#include <array>

namespace chorus::inline ops {

/// Sums of gradients of small parameters on a GPU, in a fixed order, added to what is there.

/// gradients[i] [C, H] += sums[i] over blocks, for sums [1 to 3, C, blocks, H]; an undefined gradient is left out.
void fold_sums_gpu(const at::Tensor& sums, const std::array<at::Tensor, 3>& gradients);
/// gradients [C, H] += the sum over rows of x [C, T, H].
void column_sums_gpu(const at::Tensor& x, const at::Tensor& gradients);

}  // namespace chorus::inline ops
