#include "algorithm/robust/norm_bound.h"

#include <ATen/ATen.h>

namespace chorus::inline robust {

void NormBoundConfig::describe(ConfigVisitor& visitor) {
  visitor.field("bound", bound, "largest L2 norm of an update; 0: the median norm of the round").at_least(0);
  mixing.describe(visitor);
}

at::Tensor NormBound::combine(Rows rows, const std::string&) {
  std::vector<double> weights = distances_to(rows, {});
  const double bound = config_.bound > 0 ? config_.bound : median_of(weights);
  for (double& weight : weights) {
    weight = (weight > bound ? bound / weight : 1) / static_cast<double>(rows.size());
  }
  return weighted_sum(rows, weights);
}

namespace {

const Registration<Aggregations, NormBoundConfig> kRegisteredNormBound{
    "norm_bound", "the mean of updates clipped to a norm (Sun et al. 2019)",
    [](const NormBoundConfig& config) { return std::make_unique<NormBound>(config); }, RobustRule::kTraits};

}  // namespace
}  // namespace chorus::inline robust
