#include "algorithm/federated/scaffold.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace chorus::inline federated {
namespace {

constexpr const char* kControl = "control";

}  // namespace

void ScaffoldConfig::describe(ConfigVisitor& visitor) {
  visitor.field("learning_rate", learning_rate, "of the server").above(0);
}

RoundResult Scaffold::round(const RoundInput& input) {
  if (!control_.defined()) control_ = at::zeros_like(input.model);
  Request request = request_with_model(input, "scaffold/train");
  request.body.tensors[kControl] = control_.clone();
  const auto all = static_cast<double>(input.federation.roster().trainable());  // clients may leave meanwhile
  Collected collected =
      collect(input, std::move(request), {.tensors = {{}, {.name = "control_change", .equal = true}}});
  if (collected.means[0].defined()) {
    const auto asked = static_cast<double>(input.cohort.size() - collected.result.failed.size());
    input.model.add_(collected.means[0], config_.learning_rate);
    control_.add_(collected.means[1], asked / all);
  }
  return std::move(collected.result);
}

std::map<std::string, at::Tensor> Scaffold::state() const {
  return control_.defined() ? std::map<std::string, at::Tensor>{{kControl, control_}}
                            : std::map<std::string, at::Tensor>{};
}

void Scaffold::restore(const std::map<std::string, at::Tensor>& state) {
  if (const auto found = state.find(kControl); found != state.end()) control_ = found->second.clone();
}

namespace {

class ScaffoldTrain : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const std::int64_t size = bench.parameters();
    const at::Tensor& control = request.body.vector(kControl, size);
    std::vector<at::Tensor> own;
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      at::Tensor& mine = bench.state(i)["scaffold.control"];
      if (!mine.defined()) mine = at::zeros_like(control);
      own.push_back(mine.to(control.device()));
    }
    const at::Tensor correction = control - at::stack(own);  // [C, P]
    TrainWish wish;
    wish.adjust = [&](const at::Tensor&, const at::Tensor& gradients) {
      gradients.add_(correction.narrow(0, 0, gradients.size(0)));
    };
    TrainedCohort local = train_from_model(request, bench, wish);
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      Answer& answer = local.answers[i];
      // c_k' - c_k = -c - update / sum of rates
      at::Tensor change = answer.body.tensor("update").div(-std::max(local.result.rate_sum[i], 1e-30)).sub_(control);
      bench.state(i)["scaffold.control"] = own[i] + change;
      answer.body.tensors["control_change"] = std::move(change);
    }
    return std::move(local.answers);
  }
};

const ProcedureRegistration<ScaffoldTrain> kScaffoldTrain{"scaffold/train", "train with corrected gradients"};
const Registration<Algorithms, ScaffoldConfig> kRegisteredScaffold{
    "scaffold",
    "control variates against client drift (Karimireddy et al. 2020)",
    [](const ScaffoldConfig& config) { return std::make_unique<Scaffold>(config); },
    {.plain_sgd = true}};

}  // namespace
}  // namespace chorus::inline federated
