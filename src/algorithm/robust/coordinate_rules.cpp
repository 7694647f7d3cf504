#include "algorithm/robust/coordinate_rules.h"

#include <ATen/ATen.h>

namespace chorus::inline robust {

at::Tensor median_of_sorted(const at::Tensor& sorted) {
  const std::int64_t middle = sorted.size(0) / 2;
  if (sorted.size(0) % 2 == 1) return sorted[middle];
  return (sorted[middle - 1] + sorted[middle]) / 2;
}

at::Tensor coordinate_median(Rows rows) {
  return combine_columns(rows,
                         [](const at::Tensor& block) { return median_of_sorted(std::get<0>(at::sort(block, 0))); });
}

at::Tensor Median::combine(Rows rows, const std::string&) { return coordinate_median(rows); }

void TrimmedMeanConfig::describe(ConfigVisitor& visitor) {
  visitor.field("attackers", attackers, "f: values dropped at each end; a round needs 2f + 1 updates")
      .at_least(0)
      .at_most(1e6);
  mixing.describe(visitor);
}

at::Tensor TrimmedMean::combine(Rows rows, const std::string&) {
  const std::int64_t f = config_.attackers;
  return combine_columns(rows, [f](const at::Tensor& block) {
    return std::get<0>(at::sort(block, 0)).narrow(0, f, block.size(0) - 2 * f).mean(0);
  });
}

namespace {

const Registration<Aggregations, MedianConfig> kRegisteredMedian{
    "median", "coordinate-wise median (Yin et al. 2018)",
    [](const MedianConfig& config) { return std::make_unique<Median>(config); }, RobustRule::kTraits};
const Registration<Aggregations, TrimmedMeanConfig> kRegisteredTrimmedMean{
    "trimmed_mean", "coordinate-wise mean without the f largest and smallest values (Yin et al. 2018)",
    [](const TrimmedMeanConfig& config) { return std::make_unique<TrimmedMean>(config); }, RobustRule::kTraits};

}  // namespace
}  // namespace chorus::inline robust
