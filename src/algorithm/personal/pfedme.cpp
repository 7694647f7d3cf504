#include "algorithm/personal/pfedme.h"

#include <ATen/ATen.h>

#include <cmath>

#include "algorithm/federated/own_models.h"
#include "algorithm/personal/training.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

constexpr const char* kTheta = "pfedme.model";

struct MoreauResult {
  TrainResult result;  // its values are w_k
  at::Tensor theta;    // [C, P]
};

// `moves`: the local model w_k follows theta; otherwise it is fixed.
MoreauResult moreau_steps(const Request& request, Workbench& bench, bool moves) {
  const at::Tensor model = model_of(request, bench);
  const double lambda = request.body.number("lambda"), eta = request.body.number("eta");
  const double rounds = request.body.number("local_rounds"), inner = request.body.number("inner_steps");
  if (!(lambda > 0 && eta > 0 && rounds >= 1 && rounds <= 1e6 && inner >= 1 && inner <= 1e6)) {
    throw DataError("the settings of pFedMe are out of range");
  }
  const auto clients = static_cast<std::int64_t>(bench.clients().size());
  const at::Tensor local = model.unsqueeze(0).expand({clients, -1}).clone();  // w_k
  LearnerWish wish;
  wish.steps = static_cast<std::int64_t>(rounds * inner);
  wish.train.adjust = [&](const at::Tensor& values, const at::Tensor& gradients) {
    gradients.add_(values, lambda).sub_(local.narrow(0, 0, values.size(0)), lambda);
  };
  const auto learner = bench.learner(local, wish);
  StepLog log(bench);
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(rounds); ++r) {
    log.add(learner->train(static_cast<std::int64_t>(inner)));
    if (moves) local.sub_(local - learner->values(), eta * lambda);
  }
  return {log.result(local, bench, rounds * inner), learner->values().clone()};
}

class PFedMeTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const MoreauResult done = moreau_steps(request, bench, true);
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      bench.state(i)[kTheta] = done.theta[static_cast<std::int64_t>(i)].cpu().clone();
    }
    return answers_of(done.result, done.result.values - model_of(request, bench), bench);
  }
};

class PFedMeEvaluate : public OwnModels {
 public:
  at::Tensor models(const Request& request, Workbench& bench) const override {
    const KeptRows rows = kept_rows(bench, kTheta, model_of(request, bench));
    return rows.all() ? rows.values : kept_or(rows, moreau_steps(request, bench, false).theta);
  }
};

const ProcedureRegistration<PFedMeTrain> kPFedMeTrain{"pfedme/train", "steps on the Moreau envelope of the loss"};
const ProcedureRegistration<PFedMeEvaluate> kPFedMeEvaluate{"pfedme/evaluate", "score the client's own model"};
const Registration<Algorithms, PFedMeConfig> kRegisteredPFedMe{
    "pfedme",
    "own models by Moreau envelopes (T Dinh et al. 2020)",
    [](const PFedMeConfig& config) { return std::make_unique<PFedMe>(config); },
    {.own_models = true, .one_sum = true}};

}  // namespace

void PFedMeConfig::describe(ConfigVisitor& visitor) {
  visitor.field("lambda", lambda, "pull of a client's own model towards the local one").above(0);
  visitor.field("eta", eta, "learning rate of the local model's steps").above(0);
  visitor.field("beta", beta, "step size of the server towards the mean of the local models").above(0);
  visitor.field("local_rounds", local_rounds, "steps of the local model per round (R)").at_least(1).at_most(1e6);
  visitor.field("inner_steps", inner_steps, "optimizer steps of the own model for each of these (K)")
      .at_least(1)
      .at_most(1e6);
}

void PFedMe::describe_to(Request& request) const {
  request.body.numbers["lambda"] = config_.lambda;
  request.body.numbers["eta"] = config_.eta;
  request.body.numbers["local_rounds"] = static_cast<double>(config_.local_rounds);
  request.body.numbers["inner_steps"] = static_cast<double>(config_.inner_steps);
}

RoundResult PFedMe::round(const RoundInput& input) {
  Request request = request_with_model(input, "pfedme/train");
  describe_to(request);
  Collected collected = collect(input, std::move(request));
  if (collected.means[0].defined()) input.model.add_(collected.means[0], config_.beta);
  return std::move(collected.result);
}

Request PFedMe::ask_own_models(const at::Tensor& model, std::uint64_t round, std::span<const ClientId>) const {
  Request request{.procedure = "pfedme/evaluate", .round = round};
  request.body.tensors["model"] = model;
  describe_to(request);
  return request;
}

}  // namespace chorus::inline personal
