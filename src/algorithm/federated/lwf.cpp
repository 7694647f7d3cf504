#include "algorithm/federated/lwf.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithm/federated/own_models.h"
#include "core/base/error.h"

namespace chorus::inline federated {
namespace {

constexpr const char* kLwfPhase = "lwf.phase";      // that `values` are of
constexpr const char* kLwfValues = "lwf.values";    // where its training ended
constexpr const char* kLwfTeacher = "lwf.teacher";  // the same of an earlier phase

class LwfTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const double weight = request.body.number("weight"), phase = request.body.number("phase");
    TrainWish wish;
    wish.teacher.temperature = request.body.number("temperature");
    if (!(weight >= 0 && phase >= 0 && wish.teacher.temperature > 0)) {
      throw DataError("the settings of learning without forgetting are out of range");
    }
    const at::Tensor model = request.body.vector("model", bench.parameters());
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      ClientState& state = bench.state(i);
      const auto last = state.find(kLwfPhase);
      if (last == state.end() || !(last->second.item<double>() < phase)) continue;
      state[kLwfTeacher] = state.at(kLwfValues);
      state.erase(kLwfPhase);
    }
    const KeptRows teacher = kept_rows(bench, kLwfTeacher, model);
    for (const bool kept : teacher.kept) wish.teacher.weights.push_back(kept ? weight : 0);
    const bool some = std::find(teacher.kept.begin(), teacher.kept.end(), true) != teacher.kept.end();
    if (some && weight > 0) wish.teacher.values = teacher.values;
    TrainedCohort local = train_from_model(request, bench, wish);
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      ClientState& state = bench.state(i);
      state[kLwfPhase] = at::full({1}, phase, at::kDouble);
      state[kLwfValues] = (model + local.result.values[static_cast<std::int64_t>(i)]).cpu();
    }
    return std::move(local.answers);
  }
};

const ProcedureRegistration<LwfTrain> kLwfTrain{"lwf/train", "train, and keep what an old model predicts"};
const Registration<Algorithms, LwfConfig> kRegisteredLwf{
    "lwf",
    "clients keep what their model of earlier segments of time predicts (Li and Hoiem 2016)",
    [](const LwfConfig& config) { return std::make_unique<Lwf>(config); },
    {.one_sum = true}};

}  // namespace

void LwfConfig::describe(ConfigVisitor& visitor) {
  visitor.field("weight", weight, "weight of the old model's predictions in the loss; 0: FedAvg").at_least(0);
  visitor.field("temperature", temperature, "of both distributions").above(0);
}

RoundResult Lwf::round(const RoundInput& input) {
  Request request = request_with_model(input, "lwf/train");
  request.body.numbers["weight"] = config_.weight;
  request.body.numbers["temperature"] = config_.temperature;
  request.body.numbers["phase"] = static_cast<double>(input.phase);
  Collected collected = collect(input, std::move(request));
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  return std::move(collected.result);
}

}  // namespace chorus::inline federated
