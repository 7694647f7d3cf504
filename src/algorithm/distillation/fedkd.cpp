#include "algorithm/distillation/fedkd.h"

#include <ATen/ATen.h>

namespace chorus::inline distillation {

void FedKdConfig::describe(ConfigVisitor& visitor) {
  teaching.describe(visitor);
  describe_query(visitor, query);
}

RoundResult FedKd::round(const RoundInput& input) {
  const PublicOrder order = order_of(input, config_.teaching);
  Ensemble ensemble = gather(input, predict_request(input, order));
  note_predictions(input, ensemble, false);
  if (!ensemble.mean.defined()) return std::move(ensemble.result);
  Lessons lessons = lessons_of(input, config_.teaching, ensemble.mean, order);
  lessons.lesson = Lesson::kLogits;
  ensemble.result.numbers["server_loss"] = teach_server(input, lessons);
  learn_queries(input, config_.query, ensemble.result);
  return std::move(ensemble.result);
}

namespace {

const Registration<Algorithms, FedKdConfig> kRegisteredFedKd{
    "fedkd",
    "one-way distillation of the mean logits, FedKD (Gong et al. 2022)",
    [](const FedKdConfig& config) { return std::make_unique<FedKd>(config); },
    {.own_models = true, .distills = true, .predictions_up = true, .any_network = true, .one_sum = true}};

}  // namespace
}  // namespace chorus::inline distillation
