#pragma once

#include <torch/types.h>

#include <cstdint>

#include "application/models/ops/gradient_target.h"

namespace chorus::inline ops {

/// Table lookups and sums of rows by index: the operators whose gradients add several rows to one. Always in a fixed
/// order on a CPU; on a GPU if `deterministic()` (kernels.h).

/// Rows [C, T, H] of tables [C, V, H], one table per client, at ids [C, T]. The gradient is added to that of the
/// tables, except for row `padding`; `target` tells whether it must be accumulated.
at::Tensor look_up(const at::Tensor& tables, const at::Tensor& ids, std::int64_t padding,
                   const c10::intrusive_ptr<GradientTarget>& target);

/// x [C, ...] -> [N, ...]: row rows[n] of x for each n. For few rows that are used often.
at::Tensor repeat_rows(const at::Tensor& x, const at::Tensor& rows);

/// x [N, H] -> [count, H]: row k is the sum of x[n] over all n with owner[n] == k.
at::Tensor sum_rows(const at::Tensor& x, const at::Tensor& owner, std::int64_t count);

}  // namespace chorus::inline ops
