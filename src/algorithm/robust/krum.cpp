#include "algorithm/robust/krum.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace chorus::inline robust {

void KrumConfig::describe(ConfigVisitor& visitor) {
  visitor.field("attackers", attackers, "f; a round needs 2f + 3 updates").at_least(0).at_most(1e6);
  visitor.field("keep", keep, "m: updates averaged, 1 for Krum, more for multi-Krum; a round needs m + f + 2 updates")
      .at_least(1)
      .at_most(1e6);
  mixing.describe(visitor);
}

std::size_t Krum::least_rows() const {
  const auto f = static_cast<std::size_t>(config_.attackers), m = static_cast<std::size_t>(config_.keep);
  return std::max(2 * f + 3, m + f + 2);
}

std::vector<std::size_t> krum_order(std::span<const double> squared, std::size_t n, std::span<const std::size_t> among,
                                    std::size_t f) {
  const std::size_t others = among.size() - 1;
  const std::size_t nearest = std::min(others, others > f + 2 ? others - f - 1 : 1);
  std::vector<double> scores;
  for (const std::size_t i : among) {
    std::vector<double> distances;
    for (const std::size_t j : among) {
      if (j != i) distances.push_back(squared[i * n + j]);
    }
    std::sort(distances.begin(), distances.end());
    scores.push_back(std::accumulate(distances.begin(), distances.begin() + static_cast<std::ptrdiff_t>(nearest), 0.0));
  }
  std::vector<std::size_t> order(among.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  for (std::size_t& place : order) place = among[place];
  return order;
}

at::Tensor Krum::combine(Rows rows, const std::string&) {
  std::vector<std::size_t> all(rows.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::vector<std::size_t> order =
      krum_order(squared_distances(rows), rows.size(), all, static_cast<std::size_t>(config_.attackers));
  const auto m = static_cast<std::size_t>(config_.keep);
  std::vector<double> weights(rows.size(), 0);
  for (std::size_t i = 0; i < m; ++i) weights[order[i]] = 1 / static_cast<double>(m);
  return weighted_sum(rows, weights);
}

namespace {

const Registration<Aggregations, KrumConfig> kRegisteredKrum{
    "krum", "Krum and multi-Krum: the updates with the nearest neighbours (Blanchard et al. 2017)",
    [](const KrumConfig& config) { return std::make_unique<Krum>(config); }, RobustRule::kTraits};

}  // namespace
}  // namespace chorus::inline robust
