#pragma once

#include <torch/types.h>

#include <cstdint>

namespace chorus::inline ops {

/// tables [C, V, H] += rows [C, T, H] at the rows ids [C, T], except row `padding`, on a GPU. In the order of the
/// tokens if `deterministic()` (kernels.h), else with atomic additions.
void add_looked_up_gpu(const at::Tensor& rows, const at::Tensor& ids, const at::Tensor& tables, std::int64_t padding);

}  // namespace chorus::inline ops
