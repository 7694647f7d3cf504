#include "algorithm/distillation/feddf.h"

#include <ATen/ATen.h>

#include <map>

#include "algorithm/distillation/table5.h"

namespace chorus::inline distillation {

void FedDfConfig::describe(ConfigVisitor& visitor) {
  teaching.describe(visitor);
  describe_query(visitor, query);
  visitor.field("temperature", temperature, "of the soft loss").above(0);
}

RoundResult FedDf::round(const RoundInput& input) {
  const PublicOrder order = order_of(input, config_.teaching);
  // By client, so that the sum does not depend on the order of arrival.
  std::map<ClientId, std::pair<double, at::Tensor>> predictions;
  CollectPlan plan;
  plan.look = [&](Reply& reply, double weight) {
    const at::Tensor& update = reply.body.vector("update", input.model.size(0));
    predictions[reply.client] = {weight, server_logits(input, input.model + update.to(input.model.device()))};
  };
  Collected collected = collect(input, request_with_model(input, "train"), plan);
  const double parameters = static_cast<double>(input.model.numel());
  const double counted = static_cast<double>(order.answers() * answer_size(input));
  note_traffic(input,
               {.up = parameters + counted,
                .down = parameters,
                .sent = parameters * used_clients(input, collected.result),
                .received = parameters * static_cast<double>(input.cohort.size())},
               collected.result);
  if (!collected.means[0].defined()) return std::move(collected.result);
  double weights = 0;
  at::Tensor mean;
  for (const auto& [client, entry] : predictions) {
    mean = mean.defined() ? mean + entry.second * entry.first : entry.second * entry.first;
    weights += entry.first;
  }
  input.model.add_(collected.means[0]);
  const at::Tensor answers = mean / weights;
  Lessons lessons = lessons_of(input, config_.teaching, answers, order);
  lessons.lesson = Lesson::kSoft;
  lessons.temperature = config_.temperature;
  collected.result.numbers["server_loss"] = teach_server(input, lessons);
  learn_queries(input, config_.query, collected.result);
  return std::move(collected.result);
}

namespace {

const Registration<Algorithms, FedDfConfig> kRegisteredFedDf{
    "feddf",
    "the mean model learns from the ensemble of its clients, FedDF (Lin et al. 2020)",
    [](const FedDfConfig& config) { return std::make_unique<FedDf>(config); },
    {.individual_updates = true, .distills = true}};

}  // namespace
}  // namespace chorus::inline distillation
