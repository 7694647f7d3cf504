#include "algorithm/robust/spectral_filter.h"

#include <ATen/ATen.h>

#include <numeric>

namespace chorus::inline robust {

void SpectralFilterConfig::describe(ConfigVisitor& visitor) {
  visitor.field("attackers", attackers, "f: updates removed; a round needs 2f + 1").at_least(0).at_most(1e6);
  mixing.describe(visitor);
}

namespace {

/// The place in `among` of the client that lies farthest along the first principal component. The inner products of
/// centred rows follow from their squared distances: G = -1/2 J D J with J = I - 1/m.
std::size_t farthest(std::span<const double> squared, std::size_t n, std::span<const std::size_t> among) {
  const auto m = static_cast<std::int64_t>(among.size());
  at::Tensor inner = at::empty({m, m}, at::kDouble);
  double* element = inner.data_ptr<double>();
  for (const std::size_t i : among) {
    for (const std::size_t j : among) *element++ = -0.5 * squared[i * n + j];
  }
  inner = inner - inner.mean(0, /*keepdim=*/true);
  inner = inner - inner.mean(1, /*keepdim=*/true);
  const at::Tensor component = std::get<1>(at::linalg_eigh(inner)).select(1, m - 1);
  return static_cast<std::size_t>(component.abs().argmax().item<std::int64_t>());
}

}  // namespace

at::Tensor SpectralFilter::combine(Rows rows, const std::string&) {
  const std::vector<double> squared = squared_distances(rows);
  std::vector<std::size_t> left(rows.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  for (std::int64_t i = 0; i < config_.attackers; ++i) {
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(farthest(squared, rows.size(), left)));
  }
  std::vector<double> weights(rows.size(), 0);
  for (const std::size_t client : left) weights[client] = 1 / static_cast<double>(left.size());
  return weighted_sum(rows, weights);
}

namespace {

const Registration<Aggregations, SpectralFilterConfig> kRegisteredSpectralFilter{
    "spectral_filter", "the mean without the f updates farthest along the first principal component",
    [](const SpectralFilterConfig& config) { return std::make_unique<SpectralFilter>(config); }, RobustRule::kTraits};

}  // namespace
}  // namespace chorus::inline robust
