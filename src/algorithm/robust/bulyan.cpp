#include "algorithm/robust/bulyan.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "algorithm/robust/coordinate_rules.h"
#include "algorithm/robust/krum.h"

namespace chorus::inline robust {

void BulyanConfig::describe(ConfigVisitor& visitor) {
  visitor.field("attackers", attackers, "f; a round needs 4f + 3 updates").at_least(0).at_most(1e6);
  mixing.describe(visitor);
}

at::Tensor Bulyan::combine(Rows rows, const std::string&) {
  const auto f = static_cast<std::size_t>(config_.attackers);
  const std::vector<double> squared = squared_distances(rows);
  std::vector<std::size_t> left(rows.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::vector<at::Tensor> chosen;
  while (chosen.size() < rows.size() - 2 * f) {
    const std::size_t best = krum_order(squared, rows.size(), left, f).front();
    chosen.push_back(rows[best]);
    left.erase(std::find(left.begin(), left.end(), best));
  }
  const auto beta = static_cast<std::int64_t>(chosen.size() - 2 * f);
  return combine_columns(chosen, [beta](const at::Tensor& block) {
    const at::Tensor sorted = std::get<0>(at::sort(block, 0));
    const at::Tensor away = (sorted - median_of_sorted(sorted)).abs();
    const at::Tensor order = std::get<1>(at::sort(away, /*stable=*/true, 0, /*descending=*/false));
    return sorted.gather(0, order.narrow(0, 0, beta)).mean(0);
  });
}

namespace {

const Registration<Aggregations, BulyanConfig> kRegisteredBulyan{
    "bulyan", "Krum's choices, then the values nearest to the median (El Mhamdi et al. 2018)",
    [](const BulyanConfig& config) { return std::make_unique<Bulyan>(config); }, RobustRule::kTraits};

}  // namespace
}  // namespace chorus::inline robust
