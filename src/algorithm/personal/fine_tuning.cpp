#include "algorithm/personal/fine_tuning.h"

#include <ATen/ATen.h>

#include <cmath>

#include "algorithm/federated/own_models.h"
#include "algorithm/personal/training.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

constexpr double kMostPasses = 1e6;

std::int64_t passes_of(const Request& request) {
  const double passes = request.body.number("passes");
  if (!(passes >= 1 && passes <= kMostPasses)) throw DataError("the number of passes is not one");
  return static_cast<std::int64_t>(passes);
}

class FineTuningEvaluate : public OwnModels {
 public:
  at::Tensor models(const Request& request, Workbench& bench) const override {
    return train_passes(bench, model_of(request, bench), {}, passes_of(request)).values;
  }
};

class AloneEvaluate : public OwnModels {
 public:
  at::Tensor models(const Request& request, Workbench& bench) const override {
    return train_passes(bench, bench.beginning(), {}, passes_of(request)).values;
  }
};

const ProcedureRegistration<FineTuningEvaluate> kFineTuningEvaluate{"fine_tuning/evaluate",
                                                                    "score the given model after local training"};
const ProcedureRegistration<AloneEvaluate> kAloneEvaluate{"alone/evaluate",
                                                          "score what a client reaches alone from the beginning"};
const Registration<Algorithms, FineTuningConfig> kRegisteredFineTuning{
    "fine_tuning",
    "FedAvg, and own models by local training from the global one",
    [](const FineTuningConfig& config) { return std::make_unique<FineTuning>(config); },
    {.own_models = true, .one_sum = true}};

}  // namespace

void FineTuningConfig::describe(ConfigVisitor& visitor) {
  visitor.field("passes", passes, "rounds of local training from the global model").at_least(1);
}

RoundResult FineTuning::round(const RoundInput& input) {
  Collected collected = collect(input, request_with_model(input, "train"));
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  return std::move(collected.result);
}

Request FineTuning::ask_own_models(const at::Tensor& model, std::uint64_t round, std::span<const ClientId>) const {
  return fine_tuning_request(model, round, config_.passes);
}

Request fine_tuning_request(const at::Tensor& model, std::uint64_t round, std::int64_t passes) {
  Request request{.procedure = "fine_tuning/evaluate", .round = round};
  request.body.tensors["model"] = model;
  request.body.numbers["passes"] = static_cast<double>(passes);
  return request;
}

Request alone_request(std::uint64_t round, std::int64_t passes) {
  Request request{.procedure = "alone/evaluate", .round = round};
  request.body.numbers["passes"] = static_cast<double>(passes);
  return request;
}

}  // namespace chorus::inline personal
