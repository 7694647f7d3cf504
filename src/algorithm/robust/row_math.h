#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

namespace chorus::inline robust {

/// Vectors [P], one per client, in the order of their slots.
using Rows = std::span<const at::Tensor>;

/// Calls `use(begin, block)` for consecutive column ranges: `block` is [n, c] in float64, columns begin to begin + c.
/// Needs little memory beyond the rows themselves.
void for_each_block(Rows rows, const std::function<void(std::int64_t begin, const at::Tensor& block)>& use);

/// A vector [P] of float32 from one value per column: `column(block)` maps [n, c] to [c].
at::Tensor combine_columns(Rows rows, const std::function<at::Tensor(const at::Tensor& block)>& column);

/// |x_i - x_j|^2, an n x n row-major matrix. Computed from differences, not from inner products: equal rows have
/// distance 0, and one huge row does not cancel the digits of the others.
std::vector<double> squared_distances(Rows rows);

/// |x_i - centre|; without a centre, |x_i|. There may be no rows; everywhere else there must be one.
std::vector<double> distances_to(Rows rows, const at::Tensor& centre);

/// sum_i w_i x_i, summed in float64.
at::Tensor weighted_sum(Rows rows, std::span<const double> weights);

/// The middle value, or the mean of the two middle values. The list must not be empty.
double median_of(std::vector<double> values);

}  // namespace chorus::inline robust
