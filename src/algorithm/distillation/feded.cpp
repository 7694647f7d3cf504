#include "algorithm/distillation/feded.h"

#include <ATen/ATen.h>

#include "algorithm/distillation/table5.h"

namespace chorus::inline distillation {

void FedEdConfig::describe(ConfigVisitor& visitor) {
  teaching.describe(visitor);
  describe_query(visitor, query);
  visitor.field("temperature", temperature, "of the soft loss").above(0);
}

RoundResult FedEd::round(const RoundInput& input) {
  const PublicOrder order = order_of(input, config_.teaching);
  Request request = predict_request(input, order);
  request.body.tensors["model"] = input.model.clone();
  Ensemble ensemble = gather(input, std::move(request));
  const double predictions = static_cast<double>(order.answers() * answer_size(input));
  const auto parameters = static_cast<double>(input.model.numel());
  note_traffic(input,
               {.up = predictions,
                .down = parameters,
                .sent = predictions * used_clients(input, ensemble.result),
                .received = parameters * static_cast<double>(input.cohort.size())},
               ensemble.result);
  if (!ensemble.mean.defined()) return std::move(ensemble.result);
  Lessons lessons = lessons_of(input, config_.teaching, ensemble.mean, order);
  lessons.lesson = Lesson::kSoft;
  lessons.temperature = config_.temperature;
  ensemble.result.numbers["server_loss"] = teach_server(input, lessons);
  learn_queries(input, config_.query, ensemble.result);
  return std::move(ensemble.result);
}

namespace {

const Registration<Algorithms, FedEdConfig> kRegisteredFedEd{
    "feded",
    "ensemble distillation: predictions up, weights down, FedED (Sui et al. 2020)",
    [](const FedEdConfig& config) { return std::make_unique<FedEd>(config); },
    {.distills = true, .predictions_up = true, .one_sum = true}};

}  // namespace
}  // namespace chorus::inline distillation
