#pragma once

#include "algorithm/selection/selector.h"

namespace chorus::inline selection {

struct PoissonConfig {
  bool secret = true;  ///< draws come from the operating system and cannot be repeated; false: from the seed, for tests

  void describe(ConfigVisitor& visitor);
};

/// Every client takes part with probability count / clients, independently of all others, so a cohort has `count`
/// clients on average and may be empty; where clients have left (`population`), fewer on average. Accounting for
/// differential privacy assumes this sampling and holds only while the draws are unknown: they are secret unless
/// configured otherwise.
class PoissonSelector : public Selector {
 public:
  explicit PoissonSelector(const PoissonConfig& config) : config_(config) {}
  std::vector<ClientId> select(const SelectionContext& context) const override;

 private:
  PoissonConfig config_;
};

}  // namespace chorus::inline selection
