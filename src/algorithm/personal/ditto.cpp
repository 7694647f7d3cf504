#include "algorithm/personal/ditto.h"

#include <ATen/ATen.h>

#include <cmath>

#include "algorithm/federated/own_models.h"
#include "algorithm/personal/training.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

constexpr const char* kDittoModel = "ditto.model";

// Adds lambda / 2 |v - w|^2 to the loss, whatever v starts from.
TrainWish pulled_to(const at::Tensor& centre, double lambda) {
  TrainWish wish;
  if (lambda == 0) return wish;
  wish.adjust = [centre, lambda](const at::Tensor& values, const at::Tensor& gradients) {
    gradients.add_(values, lambda).sub_(centre, lambda);
  };
  return wish;
}

TrainResult train_own(const Request& request, Workbench& bench, const at::Tensor& start) {
  const at::Tensor model = model_of(request, bench);
  const double lambda = request.body.number("lambda"), passes = request.body.number("passes");
  if (!(lambda >= 0 && passes >= 1 && passes <= 1e6)) throw DataError("the settings of Ditto are out of range");
  return train_passes(bench, start, pulled_to(model, lambda), static_cast<std::int64_t>(passes));
}

class DittoTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    TrainedCohort global = train_from_model(request, bench);
    const at::Tensor model = model_of(request, bench);
    const TrainResult own = train_own(request, bench, kept_rows(bench, kDittoModel, model).values);
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      Answer& answer = global.answers[i];
      if (answer.failure.empty()) answer.failure = own.failures[i];
      answer.body.numbers["batches"] += own.batches[i];
      answer.body.numbers["seconds"] += own.seconds / static_cast<double>(bench.clients().size());
      bench.state(i)[kDittoModel] = own.values[static_cast<std::int64_t>(i)].cpu().clone();
    }
    return std::move(global.answers);
  }
};

class DittoEvaluate : public OwnModels {
 public:
  at::Tensor models(const Request& request, Workbench& bench) const override {
    const at::Tensor model = model_of(request, bench);
    const KeptRows rows = kept_rows(bench, kDittoModel, model);
    return rows.all() ? rows.values : kept_or(rows, train_own(request, bench, rows.values).values);
  }
};

const ProcedureRegistration<DittoTrain> kDittoTrain{"ditto/train", "train the global and the client's own model"};
const ProcedureRegistration<DittoEvaluate> kDittoEvaluate{"ditto/evaluate", "score the client's own model"};
const Registration<Algorithms, DittoConfig> kRegisteredDitto{
    "ditto",
    "own models that stay near the global one (Li et al. 2021)",
    [](const DittoConfig& config) { return std::make_unique<Ditto>(config); },
    {.own_models = true, .one_sum = true}};

}  // namespace

void DittoConfig::describe(ConfigVisitor& visitor) {
  visitor.field("lambda", lambda, "pull of a client's own model towards the global one; 0: local training").at_least(0);
  visitor.field("passes", passes, "rounds of local training of the own model in each of a client's rounds").at_least(1);
}

void Ditto::describe_to(Request& request) const {
  request.body.numbers["lambda"] = config_.lambda;
  request.body.numbers["passes"] = static_cast<double>(config_.passes);
}

RoundResult Ditto::round(const RoundInput& input) {
  Request request = request_with_model(input, "ditto/train");
  describe_to(request);
  Collected collected = collect(input, std::move(request));
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  return std::move(collected.result);
}

Request Ditto::ask_own_models(const at::Tensor& model, std::uint64_t round, std::span<const ClientId>) const {
  Request request{.procedure = "ditto/evaluate", .round = round};
  request.body.tensors["model"] = model;
  describe_to(request);
  return request;
}

}  // namespace chorus::inline personal
