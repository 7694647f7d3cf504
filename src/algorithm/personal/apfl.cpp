#include "algorithm/personal/apfl.h"

#include <ATen/ATen.h>

#include "algorithm/federated/own_models.h"
#include "algorithm/personal/training.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

constexpr const char* kApflModel = "apfl.model";
constexpr const char* kApflAlpha = "apfl.alpha";

// [C, 1]
at::Tensor alphas(const Request& request, Workbench& bench, const at::Tensor& like) {
  const double first = request.body.number("alpha");
  if (!(first >= 0 && first <= 1)) throw DataError("alpha of APFL is not between 0 and 1");
  return kept_rows(bench, kApflAlpha, at::full({1}, first, like.options())).values;
}

class ApflTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const at::Tensor model = model_of(request, bench);
    const double steps = request.body.number("local_steps");
    if (!(steps >= 1 && steps <= 1e6)) throw DataError("the steps of APFL are out of range");
    const bool adaptive = request.body.number("adaptive") != 0;
    const at::Tensor own = kept_rows(bench, kApflModel, model).values;
    at::Tensor alpha = alphas(request, bench, model);
    const auto count = static_cast<std::int64_t>(steps);
    LearnerWish wish;
    wish.steps = count;
    const auto global = bench.learner(model, wish);
    GradientProbe probe(bench, model, count);
    StepLog log(bench);
    for (std::int64_t step = 0; step < count; ++step) {
      const at::Tensor before = global->values().clone();
      const at::Tensor gradient = probe.at(alpha * own + (1 - alpha) * before);
      const at::Tensor apart = own - before;
      own.sub_(probe.rates() * alpha * gradient);
      if (adaptive) alpha = (alpha - probe.rates() * (gradient * apart).sum(1, true)).clamp(0, 1);
      log.add(global->train(1));
    }
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      bench.state(i)[kApflModel] = own[row].cpu().clone();
      bench.state(i)[kApflAlpha] = alpha[row].cpu().clone();
    }
    std::vector<Answer> answers =
        answers_of(log.result(global->values(), bench, 2 * steps), global->values() - model, bench);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      answers[i].body.numbers["alpha"] = alpha[static_cast<std::int64_t>(i)].item<double>();
      const bool finite = at::isfinite(own[static_cast<std::int64_t>(i)]).all().item<bool>();
      if (answers[i].failure.empty() && !finite) answers[i].failure = "its own model has numbers that are not finite";
    }
    return answers;
  }
};

class ApflEvaluate : public OwnModels {
 public:
  at::Tensor models(const Request& request, Workbench& bench) const override {
    const at::Tensor model = model_of(request, bench);
    const KeptRows rows = kept_rows(bench, kApflModel, model);
    const at::Tensor own = rows.all() ? rows.values : kept_or(rows, bench.train(model).values);
    const at::Tensor alpha = alphas(request, bench, model);
    return alpha * own + (1 - alpha) * model;
  }
};

const ProcedureRegistration<ApflTrain> kApflTrain{"apfl/train",
                                                  "train the global and the own model, and their mixture"};
const ProcedureRegistration<ApflEvaluate> kApflEvaluate{"apfl/evaluate", "score the mixture of own and global model"};
const Registration<Algorithms, ApflConfig> kRegisteredApfl{
    "apfl",
    "learned mixtures of own and global models (Deng et al. 2020)",
    [](const ApflConfig& config) { return std::make_unique<Apfl>(config); },
    {.own_models = true, .one_sum = true}};

}  // namespace

void ApflConfig::describe(ConfigVisitor& visitor) {
  visitor.field("alpha", alpha, "initial share of the own model in the mixture").at_least(0).at_most(1);
  visitor.field("adaptive", adaptive, "each client learns alpha");
  visitor.field("local_steps", local_steps, "optimizer steps per client and round").at_least(1).at_most(1e6);
}

void Apfl::describe_to(Request& request) const {
  request.body.numbers["alpha"] = config_.alpha;
  request.body.numbers["adaptive"] = config_.adaptive ? 1 : 0;
  request.body.numbers["local_steps"] = static_cast<double>(config_.local_steps);
}

RoundResult Apfl::round(const RoundInput& input) {
  Request request = request_with_model(input, "apfl/train");
  describe_to(request);
  Collected collected = collect(input, std::move(request));
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  return std::move(collected.result);
}

Request Apfl::ask_own_models(const at::Tensor& model, std::uint64_t round, std::span<const ClientId>) const {
  Request request{.procedure = "apfl/evaluate", .round = round};
  request.body.tensors["model"] = model;
  describe_to(request);
  return request;
}

}  // namespace chorus::inline personal
