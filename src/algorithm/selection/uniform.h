#pragma once

#include "algorithm/selection/selector.h"

namespace chorus::inline selection {

/// Standard FedAvg selection: `count` of the clients with data, every subset equally likely. Registered as "uniform".
class UniformSelector : public Selector {
 public:
  std::vector<ClientId> select(const SelectionContext& context) const override;
};

}  // namespace chorus::inline selection
