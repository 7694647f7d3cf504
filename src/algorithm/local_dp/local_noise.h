#pragma once

#include <span>

#include "core/ports/filter.h"

namespace chorus::inline local_dp {

struct LocalGaussianConfig {
  double clip = 1;   ///< L2 norm that a tensor is clipped to
  double noise = 1;  ///< standard deviation / clip

  void describe(ConfigVisitor& visitor);
};

struct LocalLaplaceConfig {
  double clip = 1;   ///< L1 norm that a tensor is clipped to
  double noise = 1;  ///< scale / clip

  void describe(ConfigVisitor& visitor);
};

/// Local differential privacy: what a client sends is clipped and blurred before it leaves the device, so neither the
/// server nor the network need be trusted. Any two updates are neighbours (adjacency `replace`), so the noise must hide
/// a difference of 2 clip. Noise is drawn on the integers (noise/) from a key of the operating system, not from the
/// context's key: nobody may know it, so a run with one of these cannot be repeated bit for bit.
///
///     compression: {up: [{name: local_gaussian, clip: 0.5, noise: 4}]}
///
/// The client charges every reply to a ledger (local_budget/local_charges.h). Bytes that are computed from the noisy
/// values may be compressed further; a filter with error feedback would remember the noise and take it back, and is
/// refused.
class LocalGaussian : public Filter {
 public:
  explicit LocalGaussian(const LocalGaussianConfig& config) : config_(config) {}
  Stage stage() const override { return Stage::kTransform; }
  Numbers transform(std::span<const float> values, const FilterContext& context) const override;

 private:
  LocalGaussianConfig config_;
};

class LocalLaplace : public Filter {
 public:
  explicit LocalLaplace(const LocalLaplaceConfig& config) : config_(config) {}
  Stage stage() const override { return Stage::kTransform; }
  Numbers transform(std::span<const float> values, const FilterContext& context) const override;

 private:
  LocalLaplaceConfig config_;
};

}  // namespace chorus::inline local_dp
