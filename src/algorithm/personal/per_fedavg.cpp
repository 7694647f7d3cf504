#include "algorithm/personal/per_fedavg.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "algorithm/federated/own_models.h"
#include "algorithm/personal/training.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

std::int64_t count_of(const Request& request, const char* name) {
  const double value = request.body.number(name);
  if (!(value >= 1 && value <= 1e6)) throw DataError("the settings of Per-FedAvg are out of range");
  return static_cast<std::int64_t>(value);
}

at::Tensor for_each_client(const at::Tensor& model, const Workbench& bench) {
  return model.unsqueeze(0).expand({static_cast<std::int64_t>(bench.clients().size()), -1}).clone();
}

class PerFedAvgTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const at::Tensor model = model_of(request, bench);
    const double alpha = request.body.number("alpha"), delta = request.body.number("delta");
    const std::int64_t steps = count_of(request, "local_steps");
    const bool differences = request.body.number("hessian_free") != 0;
    const bool exact = request.body.number("hessian_exact", 0) != 0;
    if (!(alpha > 0 && delta > 0)) throw DataError("the settings of Per-FedAvg are out of range");
    const at::Tensor values = for_each_client(model, bench);
    GradientProbe probe(bench, model, 2 * steps);
    std::optional<GradientProbe> ahead, behind;
    if (differences) {
      ahead.emplace(bench, model, steps);
      behind.emplace(bench, model, steps);
    }
    const std::unique_ptr<Learner> bent = exact ? bench.learner(model, {}) : nullptr;
    StepLog log(bench);
    for (std::int64_t step = 0; step < steps; ++step) {
      const at::Tensor adapted = values - alpha * probe.at(values);
      at::Tensor gradient = probe.at(adapted);
      log.add(probe.last());
      if (differences) {
        const at::Tensor length = gradient.norm(2, 1, true).clamp_min(1e-20);
        const at::Tensor aside = gradient * (delta / length);
        const at::Tensor curvature = (ahead->at(values + aside) - behind->at(values - aside)) * (length / (2 * delta));
        gradient = gradient - alpha * curvature;
      } else if (exact) {
        bent->set_values(values);
        gradient = gradient - alpha * bent->curvature(step, gradient);
      }
      values.sub_(probe.rates() * gradient);
    }
    const double batches = static_cast<double>(steps) * (differences ? 4 : exact ? 3 : 2);
    return answers_of(log.result(values, bench, batches), values - model, bench);
  }
};

class PerFedAvgEvaluate : public OwnModels {
 public:
  at::Tensor models(const Request& request, Workbench& bench) const override {
    const at::Tensor model = model_of(request, bench);
    const double alpha = request.body.number("alpha");
    const std::int64_t steps = count_of(request, "adaptation");
    const at::Tensor values = for_each_client(model, bench);
    GradientProbe probe(bench, model, steps);
    for (std::int64_t step = 0; step < steps; ++step) values.sub_(probe.at(values), alpha);
    return values;
  }
};

const ProcedureRegistration<PerFedAvgTrain> kPerFedAvgTrain{"per_fedavg/train", "meta-gradient steps"};
const ProcedureRegistration<PerFedAvgEvaluate> kPerFedAvgEvaluate{"per_fedavg/evaluate", "score the adapted model"};
const Registration<Algorithms, PerFedAvgConfig> kRegisteredPerFedAvg{
    "per_fedavg",
    "a model that is good after one step of each client (Fallah et al. 2020)",
    [](const PerFedAvgConfig& config) { return std::make_unique<PerFedAvg>(config); },
    {.own_models = true, .one_sum = true}};

}  // namespace

void PerFedAvgConfig::describe(ConfigVisitor& visitor) {
  visitor.field("alpha", alpha, "learning rate of the adaptation step").above(0);
  visitor.field("hessian", hessian,
                {{"first_order", Hessian::kFirstOrder}, {"free", Hessian::kFree}, {"exact", Hessian::kExact}},
                "second derivative: omitted (first_order), a difference of gradients (free), or exact");
  visitor.field("delta", delta, "distance from the model at which these two gradients are taken").above(0);
  visitor.field("local_steps", local_steps, "steps per client and round (tau)").at_least(1).at_most(1e6);
  visitor.field("adaptation", adaptation, "adaptation steps of a client's own model").at_least(1).at_most(1e6);
}

void PerFedAvg::describe_to(Request& request) const {
  request.body.numbers["alpha"] = config_.alpha;
  request.body.numbers["delta"] = config_.delta;
  request.body.numbers["hessian_free"] = config_.hessian == PerFedAvgConfig::Hessian::kFree ? 1 : 0;
  request.body.numbers["hessian_exact"] = config_.hessian == PerFedAvgConfig::Hessian::kExact ? 1 : 0;
  request.body.numbers["local_steps"] = static_cast<double>(config_.local_steps);
  request.body.numbers["adaptation"] = static_cast<double>(config_.adaptation);
}

RoundResult PerFedAvg::round(const RoundInput& input) {
  Request request = request_with_model(input, "per_fedavg/train");
  describe_to(request);
  Collected collected = collect(input, std::move(request));
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  return std::move(collected.result);
}

Request PerFedAvg::ask_own_models(const at::Tensor& model, std::uint64_t round, std::span<const ClientId>) const {
  Request request{.procedure = "per_fedavg/evaluate", .round = round};
  request.body.tensors["model"] = model;
  describe_to(request);
  return request;
}

}  // namespace chorus::inline personal
