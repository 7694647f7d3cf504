#include "algorithm/federated/bounds.h"

#include <ATen/ATen.h>

#include "algorithm/federated/own_models.h"
#include "algorithm/federated/scoring.h"

namespace chorus::inline federated {
namespace {

constexpr const char* kOwnModel = "local.model";

// The client's own model, or the common beginning when it has none yet.
at::Tensor own_models(const Request& request, Workbench& bench) {
  return kept_rows(bench, kOwnModel, request.body.vector("model", bench.parameters())).values;
}

class TrainOn : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    return train_from_model(request, bench, {.keep_optimizer = true}).answers;
  }
};

class LocalTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const TrainResult result = bench.train(own_models(request, bench), {.keep_optimizer = true});
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      bench.state(i)[kOwnModel] = result.values[static_cast<std::int64_t>(i)].cpu().clone();
      Answer answer;
      answer.failure = result.failures[i];
      answer.body.numbers = {{"examples", result.examples[i]},
                             {"batches", result.batches[i]},
                             {"steps", result.steps[i]},
                             {"loss", result.loss[i]}};
      answers.push_back(std::move(answer));
    }
    return answers;
  }
};

class LocalEvaluate : public OwnModels {
 public:
  at::Tensor models(const Request& request, Workbench& bench) const override { return own_models(request, bench); }
};

const ProcedureRegistration<TrainOn> kTrainOn{"centralized/train", "train on, with the optimizer of the last round"};
const ProcedureRegistration<LocalTrain> kLocalTrain{"local/train", "train the client's own model on"};
const ProcedureRegistration<LocalEvaluate> kLocalEvaluate{"local/evaluate", "score the client's own model"};
const Registration<Algorithms> kRegisteredCentralized{"centralized",
                                                      "all data in one place: the upper bound",
                                                      [] { return std::make_unique<Centralized>(); },
                                                      {.pooled = true}};
const Registration<Algorithms> kRegisteredLocal{"local",
                                                "every client alone: the lower bound",
                                                [] { return std::make_unique<LocalOnly>(); },
                                                {.personal = true, .own_models = true}};

}  // namespace

RoundResult Centralized::round(const RoundInput& input) {
  Collected collected = collect(input, request_with_model(input, "centralized/train"));
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  return std::move(collected.result);
}

Request LocalOnly::ask_own_models(const at::Tensor& model, std::uint64_t round, std::span<const ClientId>) const {
  return local_evaluate_request(model, round, false);
}

RoundResult LocalOnly::round(const RoundInput& input) {
  return collect(input, request_with_model(input, "local/train"), {.tensors = {}}).result;
}

}  // namespace chorus::inline federated
