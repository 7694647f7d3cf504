#include "algorithm/federated/fedsgd.h"

#include <ATen/ATen.h>

namespace chorus::inline federated {

void FedSgdConfig::describe(ConfigVisitor& visitor) {
  visitor.field("learning_rate", learning_rate, "of the server's step").above(0);
}

RoundResult FedSgd::round(const RoundInput& input) {
  Collected collected =
      collect(input, request_with_model(input, "fedsgd/gradient"), {.tensors = {{.name = "gradient"}}});
  if (collected.means[0].defined()) input.model.sub_(collected.means[0], config_.learning_rate);
  return std::move(collected.result);
}

namespace {

class FedSgdGradient : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const GradientResult result = bench.gradient(request.body.vector("model", bench.parameters()), true);
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      Answer answer;
      answer.failure = result.failures[i];
      answer.body.tensors["gradient"] = result.gradients[static_cast<std::int64_t>(i)];
      answer.body.numbers = {{"examples", result.examples[i]}, {"steps", 1}, {"loss", result.loss[i]}};
      answers.push_back(std::move(answer));
    }
    return answers;
  }
};

const ProcedureRegistration<FedSgdGradient> kFedSgdGradient{"fedsgd/gradient",
                                                            "the gradient over all data of a client"};
const Registration<Algorithms, FedSgdConfig> kRegisteredFedSgd{
    "fedsgd",
    "one server step per round with the mean gradient (McMahan et al. 2017)",
    [](const FedSgdConfig& config) { return std::make_unique<FedSgd>(config); },
    {.one_sum = true, .stateless = true}};

}  // namespace
}  // namespace chorus::inline federated
