#include "algorithm/robust/row_math.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace chorus::inline robust {
namespace {

constexpr std::int64_t kBlockElements = 1 << 19;

std::vector<double> to_doubles(const at::Tensor& x) {
  const at::Tensor values = x.to(at::kCPU).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

at::Tensor column_of(std::span<const double> values, const at::Tensor& like) {
  at::Tensor column = at::empty({static_cast<std::int64_t>(values.size()), 1}, at::kDouble);
  std::copy(values.begin(), values.end(), column.data_ptr<double>());
  return column.to(like.device());
}

}  // namespace

void for_each_block(Rows rows, const std::function<void(std::int64_t, const at::Tensor&)>& use) {
  const std::int64_t size = rows.front().size(0);
  const std::int64_t width = std::max<std::int64_t>(1024, kBlockElements / static_cast<std::int64_t>(rows.size()));
  for (std::int64_t begin = 0; begin < size; begin += width) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& row : rows) parts.push_back(row.narrow(0, begin, std::min(width, size - begin)));
    use(begin, at::stack(parts).to(at::kDouble));
  }
}

at::Tensor combine_columns(Rows rows, const std::function<at::Tensor(const at::Tensor&)>& column) {
  at::Tensor result = at::empty_like(rows.front());
  for_each_block(rows, [&](std::int64_t begin, const at::Tensor& block) {
    result.narrow(0, begin, block.size(1)).copy_(column(block));
  });
  return result;
}

std::vector<double> squared_distances(Rows rows) {
  const auto n = static_cast<std::int64_t>(rows.size());
  at::Tensor sums = at::zeros({n, n}, rows.front().options().dtype(at::kDouble));
  for_each_block(rows, [&](std::int64_t, const at::Tensor& block) {
    for (std::int64_t i = 0; i + 1 < n; ++i) {
      const at::Tensor later = block.narrow(0, i + 1, n - i - 1);
      sums.select(0, i).narrow(0, i + 1, n - i - 1).add_((later - block[i]).square_().sum(1));
    }
  });
  return to_doubles(sums + sums.t());
}

std::vector<double> distances_to(Rows rows, const at::Tensor& centre) {
  if (rows.empty()) return {};
  at::Tensor sums = at::zeros({static_cast<std::int64_t>(rows.size())}, rows.front().options().dtype(at::kDouble));
  for_each_block(rows, [&](std::int64_t begin, const at::Tensor& block) {
    const at::Tensor away = centre.defined() ? block - centre.narrow(0, begin, block.size(1)) : block;
    sums.add_(away.square().sum(1));
  });
  std::vector<double> distances = to_doubles(sums);
  for (double& distance : distances) distance = std::sqrt(distance);
  return distances;
}

at::Tensor weighted_sum(Rows rows, std::span<const double> weights) {
  const at::Tensor column = column_of(weights, rows.front());
  return combine_columns(rows, [&](const at::Tensor& block) { return (block * column).sum(0); });
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace chorus::inline robust
