#include "algorithm/federated/ewc.h"

#include <ATen/ATen.h>

#include "algorithm/federated/own_models.h"
#include "core/base/error.h"

namespace chorus::inline federated {
namespace {

constexpr const char* kEwcPhase = "ewc.phase";     // that `now` and `values` are of
constexpr const char* kEwcNow = "ewc.now";         // importance in that phase
constexpr const char* kEwcValues = "ewc.values";   // where its training ended
constexpr const char* kEwcSum = "ewc.importance";  // of earlier phases
constexpr const char* kEwcAnchor = "ewc.anchor";   // where the last of them ended

// A new segment has begun: what was learnt of the last one becomes what is protected.
void consolidate(ClientState& state, double phase, double decay) {
  const auto last = state.find(kEwcPhase);
  if (last == state.end() || !(last->second.item<double>() < phase)) return;
  at::Tensor& sum = state[kEwcSum];
  const at::Tensor& now = state.at(kEwcNow);
  sum = sum.defined() ? sum * decay + now : now;
  state[kEwcAnchor] = state.at(kEwcValues);
  state.erase(kEwcPhase);
}

class EwcTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const double lambda = request.body.number("lambda"), decay = request.body.number("decay");
    const double phase = request.body.number("phase");
    if (!(lambda >= 0 && decay >= 0 && phase >= 0)) throw DataError("the settings of EWC are out of range");
    const at::Tensor model = request.body.vector("model", bench.parameters());
    for (std::size_t i = 0; i < bench.clients().size(); ++i) consolidate(bench.state(i), phase, decay);
    const KeptRows importance = kept_rows(bench, kEwcSum, at::zeros_like(model));
    const at::Tensor anchor = kept_rows(bench, kEwcAnchor, model).values;
    const at::Tensor squares = at::zeros_like(anchor), steps = at::zeros({anchor.size(0), 1}, anchor.options());
    TrainWish wish;
    wish.adjust = [&](const at::Tensor& values, const at::Tensor& gradients) {
      const std::int64_t active = gradients.size(0);
      squares.narrow(0, 0, active).addcmul_(gradients, gradients);
      steps.narrow(0, 0, active).add_(1);
      gradients.add_(importance.values.narrow(0, 0, active) * (values - anchor.narrow(0, 0, active)), lambda);
    };
    TrainedCohort local = train_from_model(request, bench, wish);
    squares.div_(steps.clamp_min(1));
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      ClientState& state = bench.state(i);
      state[kEwcPhase] = at::full({1}, phase, at::kDouble);
      state[kEwcNow] = squares[row].cpu().clone();
      state[kEwcValues] = (model + local.result.values[row]).cpu();
    }
    return std::move(local.answers);
  }
};

const ProcedureRegistration<EwcTrain> kEwcTrain{"ewc/train", "train with a penalty on what mattered before"};
const Registration<Algorithms, EwcConfig> kRegisteredEwc{
    "ewc",
    "clients protect what mattered in earlier segments of time (Kirkpatrick et al. 2017)",
    [](const EwcConfig& config) { return std::make_unique<Ewc>(config); },
    {.one_sum = true}};

}  // namespace

void EwcConfig::describe(ConfigVisitor& visitor) {
  visitor.field("lambda", lambda, "weight of the penalty; 0: FedAvg").at_least(0);
  visitor.field("decay", decay, "of the importance of earlier segments, each time a segment ends")
      .at_least(0)
      .at_most(1);
}

RoundResult Ewc::round(const RoundInput& input) {
  Request request = request_with_model(input, "ewc/train");
  request.body.numbers["lambda"] = config_.lambda;
  request.body.numbers["decay"] = config_.decay;
  request.body.numbers["phase"] = static_cast<double>(input.phase);
  Collected collected = collect(input, std::move(request));
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  return std::move(collected.result);
}

}  // namespace chorus::inline federated
