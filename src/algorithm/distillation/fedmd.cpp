#include "algorithm/distillation/fedmd.h"

#include <ATen/ATen.h>

namespace chorus::inline distillation {

void FedMdConfig::describe(ConfigVisitor& visitor) {
  teaching.describe(visitor);
  visitor
      .field("transfer_epochs", transfer_epochs,
             "over the labels of the public set, in a client's first round; needs public.labelled")
      .at_least(0);
}

RoundResult FedMd::round(const RoundInput& input) {
  const PublicOrder order = order_of(input, config_.teaching);
  Request request = predict_request(input, order);
  request.body.numbers["once"] = 1;
  request.body.numbers["transfer"] = static_cast<double>(config_.transfer_epochs);
  Ensemble ensemble = gather(input, std::move(request));
  note_predictions(input, ensemble, true);
  if (!ensemble.mean.defined()) return std::move(ensemble.result);
  Lessons lessons = lessons_of(input, config_.teaching, ensemble.mean, order);
  lessons.lesson = Lesson::kLogits;
  Request learn = learn_request(input, lessons);
  learn.body.numbers["train"] = 1;
  ask_to_learn(input, std::move(learn), ensemble.result);
  return std::move(ensemble.result);
}

namespace {

const Registration<Algorithms, FedMdConfig> kRegisteredFedMd{
    "fedmd",
    "clients agree on scores of the public set, FedMD (Li and Wang 2019)",
    [](const FedMdConfig& config) { return std::make_unique<FedMd>(config); },
    {.personal = true,
     .own_models = true,
     .distills = true,
     .predictions_up = true,
     .predictions_down = true,
     .any_network = true,
     .one_sum = true}};

}  // namespace
}  // namespace chorus::inline distillation
