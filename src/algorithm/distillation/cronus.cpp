#include "algorithm/distillation/cronus.h"

#include <ATen/ATen.h>

namespace chorus::inline distillation {
namespace {

// Rows of coordinate-wise rules do not sum to 1.
at::Tensor as_logits(const at::Tensor& robust) {
  if (robust.size(1) == 1) return robust;
  const at::Tensor positive = robust.clamp_min(1e-8);
  return (positive / positive.sum(-1, true)).log();
}

}  // namespace

RoundResult Cronus::round(const RoundInput& input) {
  const PublicOrder order = order_of(input, config_.teaching);
  Request request = predict_request(input, order);
  request.body.texts["answers"] = name_of(Sent::kProbabilities);
  Ensemble ensemble = gather(input, std::move(request));
  note_predictions(input, ensemble, true);
  if (!ensemble.mean.defined()) return std::move(ensemble.result);
  const at::Tensor answers = as_logits(ensemble.mean);
  Lessons lessons = lessons_of(input, config_.teaching, answers, order);
  lessons.lesson = Lesson::kSoft;
  ask_to_learn(input, learn_request(input, lessons), ensemble.result);
  return std::move(ensemble.result);
}

namespace {

const Registration<Algorithms, CronusConfig> kRegisteredCronus{
    "cronus",
    "clients learn a robust mean of predictions, Cronus (Chang et al. 2019)",
    [](const CronusConfig& config) { return std::make_unique<Cronus>(config); },
    {.personal = true,
     .own_models = true,
     .distills = true,
     .predictions_up = true,
     .predictions_down = true,
     .any_network = true,
     .one_sum = true}};

}  // namespace
}  // namespace chorus::inline distillation
