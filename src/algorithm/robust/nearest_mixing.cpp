#include "algorithm/robust/nearest_mixing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace chorus::inline robust {

void MixingConfig::describe(ConfigVisitor& visitor) {
  visitor
      .field("mixing", attackers,
             "f: first, each update becomes the mean of the n - f nearest to it (Allouah et al. 2023); a round needs "
             "2f + 1 updates; 0: no mixing")
      .at_least(0)
      .at_most(1e6);
}

std::vector<at::Tensor> mix_nearest(Rows rows, std::size_t f) {
  const std::size_t n = rows.size();
  const std::vector<double> squared = squared_distances(rows);
  std::vector<at::Tensor> mixed;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return squared[i * n + a] < squared[i * n + b]; });
    std::vector<double> weights(n, 0);
    for (std::size_t k = 0; k < n - f; ++k) weights[order[k]] = 1 / static_cast<double>(n - f);
    mixed.push_back(weighted_sum(rows, weights));
  }
  return mixed;
}

}  // namespace chorus::inline robust
