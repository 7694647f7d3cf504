#pragma once

#include <functional>
#include <string>
#include <vector>

#include "algorithm/federated/read_updates.h"
#include "core/ports/algorithm.h"
#include "core/ports/procedure.h"

namespace chorus::inline federated {

/// What most client procedures do: trains from request.body's "model", and replies with "update" = trained - model and
/// the numbers examples, batches, steps, reach (FedNova's |a|_1), rate_sum and loss.
struct TrainedCohort {
  TrainResult result;  ///< of updates
  std::vector<Answer> answers;
};
TrainedCohort train_from_model(const Request& request, Workbench& bench, TrainWish wish = {});

/// A request that carries the model to a procedure.
Request request_with_model(const RoundInput& input, std::string procedure);

/// The round of a part of the cohort with a model of its own (AdaFL's groups, FedLoRA's ranks). Borrows `members`.
RoundInput part_of(const RoundInput& input, std::span<const Member> members, const at::Tensor& model);

/// What one request cost those that were asked: it lasts until the last reply is there, or is not waited for any more.
/// `costs` in an order of their own, not that of arrival.
EmulatedTotals cost_of_asking(std::span<const Cost> costs);

/// Adds what a group of the cohort did to what others did side by side with it. The caller sets the clock.
void join(RoundResult& sum, RoundResult part);

/// What most server rounds do: the round's aggregation asks the cohort and combines one or more tensors.
struct Collected {
  RoundResult result;
  std::vector<at::Tensor> means;  ///< as asked for; undefined when nobody's update could be used
};

struct CollectPlan {
  std::vector<AggregatedTensor> tensors = {{}};
  /// See AggregationInput::look; the algorithm declares AlgorithmTraits::individual_updates.
  std::function<void(Reply& reply, double weight)> look = {};
};

/// The cohort in the order in which `collect` asks it, for requests with messages of its own for each client.
std::vector<Member> asking_order(const RoundInput& input);

/// The cohort is asked in order of falling size, so the result does not depend on the order it was drawn in.
Collected collect(const RoundInput& input, Request request, const CollectPlan& plan = {});

}  // namespace chorus::inline federated
