#include "algorithm/robust/geometric_median.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "algorithm/robust/coordinate_rules.h"

namespace chorus::inline robust {

void GeometricMedianConfig::describe(ConfigVisitor& visitor) {
  visitor.field("iterations", iterations, "at most this many steps of Weiszfeld's method").at_least(1);
  visitor.field("tolerance", tolerance, "stop when a step is shorter than this share of the median distance")
      .at_least(0);
  visitor.field("smoothing", smoothing, "smaller distances count as this").above(0);
  mixing.describe(visitor);
}

at::Tensor GeometricMedian::combine(Rows rows, const std::string&) {
  at::Tensor centre = coordinate_median(rows);
  for (std::int64_t step = 0; step < config_.iterations; ++step) {
    const std::vector<double> distances = distances_to(rows, centre);
    std::vector<double> weights;
    for (const double distance : distances) weights.push_back(1 / std::max(config_.smoothing, distance));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight /= sum;
    const at::Tensor next = weighted_sum(rows, weights);
    const double moved = distances_to(std::span(&next, 1), centre).front();
    centre = next;
    if (moved <= config_.tolerance * median_of(distances)) break;
  }
  return centre;
}

namespace {

const Registration<Aggregations, GeometricMedianConfig> kRegisteredGeometricMedian{
    "geometric_median", "the point nearest to all updates, RFA (Pillutla et al. 2022)",
    [](const GeometricMedianConfig& config) { return std::make_unique<GeometricMedian>(config); }, RobustRule::kTraits};

}  // namespace
}  // namespace chorus::inline robust
