#pragma once

#include "algorithm/selection/selector.h"

namespace chorus::inline selection {

struct StratifiedConfig {
  std::int64_t strata = 10;  ///< number of groups of similar size; 10: deciles

  void describe(ConfigVisitor& v);
};

/// Keeps the shares of light and heavy clients constant in every round. Reachable clients with data are divided by size
/// into `strata` groups of (nearly) equal number (core/base/activity.h). The count is distributed in proportion to the
/// group sizes, largest remainders rounded up (ties at random in each round), and members of a group are equally
/// likely. Empty strata are ignored. Registered as "stratified".
class StratifiedSelector : public Selector {
 public:
  explicit StratifiedSelector(StratifiedConfig config) : config_(config) {}
  std::vector<ClientId> select(const SelectionContext& context) const override;

 private:
  StratifiedConfig config_;
};

}  // namespace chorus::inline selection
