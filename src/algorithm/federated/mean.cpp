#include "algorithm/federated/mean.h"

#include <ATen/ATen.h>

#include "algorithm/federated/rank_sums.h"
#include "algorithm/federated/read_updates.h"
#include "algorithm/federated/weighted_mean.h"

namespace chorus::inline federated {

Aggregated Mean::aggregate(AggregationInput input) {
  if (wish_for_sums(input)) return mean_of_sums(input);
  std::vector<WeightedMean> means(input.tensors.size(), WeightedMean(input.cohort.size()));
  UpdateReader reader;
  reader.use = [&](std::size_t slot, const std::vector<double>& weights, const std::vector<at::Tensor>& tensors) {
    for (std::size_t i = 0; i < means.size(); ++i) means[i].add(slot, weights[i], tensors[i]);
  };
  reader.skip = [&](std::size_t slot) {
    for (WeightedMean& mean : means) mean.skip(slot);
  };
  reader.least = least_updates();
  Aggregated result;
  result.clients = read_updates(input, reader);
  for (WeightedMean& mean : means) result.means.push_back(mean.result());
  return result;
}

namespace {

const Registration<Aggregations> kRegisteredMean{"mean", "the weighted mean of the updates",
                                                 [] { return std::make_unique<Mean>(); }};

}  // namespace
}  // namespace chorus::inline federated
