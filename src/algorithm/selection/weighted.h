#pragma once

#include "algorithm/selection/selector.h"

namespace chorus::inline selection {

/// f(n) of Dupuy et al. 2022, where n is a client's number of training examples.
enum class SizeFunction { kOne, kLog, kSqrt, kLinear, kInverseLog };

/// f(n) for n > 0: 1, log(n + 1), sqrt(n), n, 1 / log(n + 1).
double apply(SizeFunction f, double n);

struct WeightedConfig {
  SizeFunction f =
      SizeFunction::kInverseLog;  ///< Dupuy et al. 2022: 1 / log(n + 1) is best for FedAvg over long periods
  bool replacement = false;       ///< whether a client can be drawn twice in a round

  void describe(ConfigVisitor& v);
};

/// Selection by device activity (Dupuy et al. 2022, section 3): each draw takes client m with probability proportional
/// to f(n_m), among those not yet drawn unless with replacement. Exact (sampling.h);
/// inclusion_probabilities(weights_of(f, sizes), {.count = count, .replacement = r}) gives each client's probability of
/// taking part. With f = one and no replacement it has the distribution of "uniform". With replacement a client may
/// occur twice in the cohort. Registered as "weighted".
class WeightedSelector : public Selector {
 public:
  explicit WeightedSelector(WeightedConfig config) : config_(config) {}
  std::vector<ClientId> select(const SelectionContext& context) const override;
  /// Unbounded with replacement, given at least one client.
  std::size_t most(const SelectionContext& context) const override;

 private:
  WeightedConfig config_;
};

/// f of every size; 0 for clients without data.
std::vector<double> weights_of(SizeFunction f, std::span<const double> sizes);

}  // namespace chorus::inline selection
