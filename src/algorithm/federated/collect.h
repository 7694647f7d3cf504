#pragma once

#include <functional>
#include <string>
#include <vector>

#include "algorithm/federated/weighted_mean.h"
#include "core/ports/algorithm.h"
#include "core/ports/procedure.h"

namespace chorus {

/// What most client procedures do: trains from request.body's "model", and answers with "update" = trained - model and
/// the numbers examples, batches, steps, reach (FedNova's |a|_1), rate_sum and loss.
struct LocalTraining {
  TrainResult result;  ///< of updates
  std::vector<Answer> answers;
};
LocalTraining train_from_model(const Request& request, Workbench& bench, TrainWish wish = {});

/// A request that carries the model to a procedure.
Request request_with_model(const RoundInput& input, std::string procedure);

/// What a client's update counts for.
double weight_of(const Reply& reply, Weighting weighting);
/// Why a reply with these tensors of `size` numbers cannot be used, or "". DataError when one is missing.
std::string fault_of(const Reply& reply, std::span<const std::string> tensors, std::int64_t size);

/// What one request cost those that were asked: it lasted until the last answer was there, or was not waited for any
/// more. `costs` in an order of their own, not that of arrival.
EmulatedTotals cost_of_asking(std::span<const Cost> costs);

/// Adds what a group of the cohort did to what others did side by side with it. The clock is the caller's to tell.
void join(RoundResult& sum, RoundResult part);

/// What most server rounds do: asks the cohort, and averages one or more tensors over those that answered.
struct Collected {
  RoundResult result;
  std::vector<at::Tensor> means;  ///< as asked for; undefined when nobody answered
};

struct CollectPlan {
  std::vector<std::string> tensors = {"update"};
  /// Changes a reply before it is averaged, or looks at it. The weight is that of the average.
  std::function<void(Reply& reply, double weight)> look = {};
};

/// The cohort is asked in the order of falling size, so the result does not depend on the order it was drawn in. A
/// reply that does not fit (wrong size, numbers that are not finite) counts as a failure of that client.
Collected collect(const RoundInput& input, Request request, const CollectPlan& plan = {});

}  // namespace chorus
