#include "algorithm/robust/centred_clipping.h"

#include <ATen/ATen.h>

#include <numeric>

namespace chorus::inline robust {

void CentredClippingConfig::describe(ConfigVisitor& visitor) {
  visitor.field("radius", radius, "largest distance to the centre that counts; 0: the median distance").at_least(0);
  visitor.field("iterations", iterations, "iterations per round").at_least(1);
  mixing.describe(visitor);
}

at::Tensor CentredClipping::combine(Rows rows, const std::string& tensor) {
  at::Tensor centre = centres_[tensor];
  if (!centre.defined() || centre.sizes() != rows.front().sizes()) centre = at::zeros_like(rows.front());
  std::vector<at::Tensor> all(rows.begin(), rows.end());
  all.push_back(centre);
  for (std::int64_t step = 0; step < config_.iterations; ++step) {
    std::vector<double> weights = distances_to(rows, centre);
    const double radius = config_.radius > 0 ? config_.radius : median_of(weights);
    for (double& weight : weights) {
      weight = (weight > radius ? radius / weight : 1) / static_cast<double>(rows.size());
    }
    weights.push_back(1 - std::accumulate(weights.begin(), weights.end(), 0.0));
    all.back() = centre;
    centre = weighted_sum(all, weights);
  }
  centres_[tensor] = centre;
  return centre.clone();
}

namespace {

const Registration<Aggregations, CentredClippingConfig> kRegisteredCentredClipping{
    "centred_clipping", "updates clipped around the last round's result (Karimireddy et al. 2021)",
    [](const CentredClippingConfig& config) { return std::make_unique<CentredClipping>(config); }, RobustRule::kTraits};

}  // namespace
}  // namespace chorus::inline robust
