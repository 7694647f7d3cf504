#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/ports/aggregation.h"

namespace chorus::inline federated {

/// The weight of a client's update. DataError when the reply's count is not a positive finite number.
double weight_of(const Reply& reply, Weighting weighting);

/// Why a reply with these tensors of `size` elements cannot be used, or "". DataError when a tensor is missing.
std::string fault_of(const Reply& reply, const std::vector<AggregatedTensor>& tensors, std::int64_t size);

/// Asks a cohort and reads its replies: the first step of every aggregation that sees individual updates. A reply that
/// cannot be used fails that client; all others are accepted.
///
///     std::vector<ClientReport> reports = read_updates(input, {.use = [&](slot, weights, tensors) {...},
///                                                              .skip = [&](slot) {...}});
struct UpdateReader {
  /// One weight per tensor. Tensors are on the input's device; undefined where a summed reply has none.
  std::function<void(std::size_t slot, const std::vector<double>& weights, const std::vector<at::Tensor>& tensors)> use;
  /// Called for a client whose reply cannot be used.
  std::function<void(std::size_t slot)> skip;
  /// Whether the update is in a sum that travels with another reply: it may have no tensor. Empty: never.
  std::function<bool(const Reply&)> summed = {};
  /// Updates that are needed. When clients of other processes send fewer although enough were asked, the round has to
  /// be repeated: TooFewReplies. 0: any number will do.
  std::size_t least = 0;
};
std::vector<ClientReport> read_updates(AggregationInput& input, const UpdateReader& reader);

}  // namespace chorus::inline federated
