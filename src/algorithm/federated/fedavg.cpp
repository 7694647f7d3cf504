#include "algorithm/federated/fedavg.h"

#include <ATen/ATen.h>

namespace chorus::inline federated {

RoundResult FedAvg::round(const RoundInput& input) {
  Collected collected = collect(input, request_with_model(input, "train"));
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  return std::move(collected.result);
}

std::vector<Answer> TrainProcedure::run(const Request& request, Workbench& bench) const {
  return train_from_model(request, bench).answers;
}

namespace {

const ProcedureRegistration<TrainProcedure> kTrain{"train", "train from the given model and reply with the update"};
const Registration<Algorithms> kRegisteredFedAvg{"fedavg",
                                                 "the weighted mean of local training (McMahan et al. 2017)",
                                                 [] { return std::make_unique<FedAvg>(); },
                                                 {.one_sum = true, .stateless = true}};

}  // namespace
}  // namespace chorus::inline federated
