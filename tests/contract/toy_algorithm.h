#pragma once

#include <functional>

#include "core/ports/algorithm.h"

namespace chorus::toy {

/// FedAvg in three asks: train, scale the update by a per-client factor, send it. With all factors 1 it is FedAvg.
class ThreeAsks : public Algorithm {
 public:
  RoundResult round(const RoundInput& input) override;
  std::function<double(ClientId)> factor = [](ClientId) { return 1.0; };
};

}  // namespace chorus::toy
