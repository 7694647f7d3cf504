#pragma once

#include "core/ports/aggregation.h"

namespace chorus::inline federated {

/// The weighted mean of the updates, sum_k w_k x_k / sum_k w_k, summed over a fixed tree as they arrive
/// (weighted_mean.h): the bits do not depend on the order of arrival, and few updates are held at a time.
class Mean : public Aggregation {
 public:
  Aggregated aggregate(AggregationInput input) override;
};

}  // namespace chorus::inline federated
