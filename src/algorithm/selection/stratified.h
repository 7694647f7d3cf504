#pragma once

#include "algorithm/selection/selector.h"

namespace chorus {

struct StratifiedConfig {
  std::int64_t strata = 10;  ///< how many groups of clients of like size; 10: paper 002's deciles

  void describe(ConfigVisitor& v);
};

/// Each round has its share of light and of heavy clients. The clients with data that can be reached are cut by size
/// into `strata` groups of (nearly) equal number (core/base/activity.h), the count is spread over them in proportion to
/// their numbers with the largest remainders rounded up (equal remainders: at random, anew each round), and inside a
/// group all are equally likely. Strata without clients are left out. Registered as "stratified".
class StratifiedSelector : public Selector {
 public:
  explicit StratifiedSelector(StratifiedConfig config) : config_(config) {}
  std::vector<ClientId> select(const SelectionContext& context) const override;

 private:
  StratifiedConfig config_;
};

}  // namespace chorus
