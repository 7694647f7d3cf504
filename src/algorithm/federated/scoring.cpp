#include "algorithm/federated/scoring.h"

#include <ATen/ATen.h>

namespace chorus::inline federated {
namespace {

Request about(const at::Tensor& model, std::uint64_t round, const char* procedure) {
  Request request{.procedure = procedure, .round = round};
  request.body.tensors["model"] = model;
  return request;
}

std::vector<Answer> answers_of(std::vector<Message> messages) {
  std::vector<Answer> answers;
  for (Message& message : messages) answers.push_back({std::move(message), ""});
  return answers;
}

class EvaluateProcedure : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const at::Tensor& model = request.body.vector("model", bench.parameters());
    return answers_of(bench.evaluate(model, Workbench::TestOn::kOwn));
  }
};

class LossProcedure : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const GradientResult result = bench.gradient(request.body.vector("model", bench.parameters()), false);
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      Message body;
      body.numbers = {{"loss", result.loss[i]}, {"examples", result.examples[i]}};
      answers.push_back({std::move(body), result.failures[i]});
    }
    return answers;
  }
};

const ProcedureRegistration<EvaluateProcedure> kEvaluate{"evaluate",
                                                         "score the given model on a client's test examples"};
const ProcedureRegistration<LossProcedure> kLoss{"loss", "the given model's loss on a client's training data"};

}  // namespace

Request evaluate_request(const at::Tensor& model, std::uint64_t round) { return about(model, round, "evaluate"); }

Request local_evaluate_request(const at::Tensor& model, std::uint64_t round, bool shared) {
  Request request = about(model, round, "local/evaluate");
  request.body.numbers["shared"] = shared ? 1 : 0;
  return request;
}

Request loss_request(const at::Tensor& model, std::uint64_t round) { return about(model, round, "loss"); }

}  // namespace chorus::inline federated
