#pragma once

#include <torch/types.h>

#include <cstdint>

#include "application/models/ops/gradient_target.h"

namespace chorus::inline ops {

/// Rows of tables, and sums of rows by index: the operators whose gradients add several rows to one. On a CPU always in
/// a fixed order; on a GPU where `deterministic()` (kernels.h) says so.

/// Rows [C, T, H] that ids [C, T] name in tables [C, V, H], one per client. The gradient is added to that of the
/// tables, except for row `padding`; `target` says whether it holds anything yet.
at::Tensor look_up(const at::Tensor& tables, const at::Tensor& ids, std::int64_t padding,
                   const c10::intrusive_ptr<GradientTarget>& target);

/// x [C, ...] -> [N, ...]: row rows[n] of x for each n. For few rows that are used many times.
at::Tensor repeat_rows(const at::Tensor& x, const at::Tensor& rows);

/// x [N, H] -> [count, H]: row owner[n] is the sum of all x[n].
at::Tensor sum_rows(const at::Tensor& x, const at::Tensor& owner, std::int64_t count);

}  // namespace chorus::inline ops
