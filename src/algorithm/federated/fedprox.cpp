#include "algorithm/federated/fedprox.h"

#include <ATen/ATen.h>

namespace chorus::inline federated {

void FedProxConfig::describe(ConfigVisitor& visitor) {
  visitor.field("mu", mu, "weight of the proximal term; 0 is FedAvg").at_least(0);
}

RoundResult FedProx::round(const RoundInput& input) {
  Request request = request_with_model(input, "fedprox/train");
  request.body.numbers["mu"] = config_.mu;
  Collected collected = collect(input, std::move(request));
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  return std::move(collected.result);
}

namespace {

class FedProxTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    return train_from_model(request, bench, {.proximal = request.body.number("mu")}).answers;
  }
};

const ProcedureRegistration<FedProxTrain> kFedProxTrain{"fedprox/train", "train with a proximal term"};
const Registration<Algorithms, FedProxConfig> kRegisteredFedProx{
    "fedprox",
    "FedAvg with a proximal term in the clients' loss (Li et al. 2020)",
    [](const FedProxConfig& config) { return std::make_unique<FedProx>(config); },
    {.one_sum = true, .stateless = true}};

}  // namespace
}  // namespace chorus::inline federated
