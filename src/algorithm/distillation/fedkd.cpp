#include "algorithm/distillation/fedkd.h"

#include <ATen/ATen.h>

namespace chorus::inline distillation {

RoundResult FedKd::round(const RoundInput& input) {
  const PublicOrder order = order_of(input, config_.teaching);
  Ensemble ensemble = gather(input, predict_request(input, order, true));
  note_predictions(input, order, ensemble.result, false);
  if (!ensemble.mean.defined()) return std::move(ensemble.result);
  ensemble.result.numbers["server_loss"] = teach_server(
      input, {ensemble.mean, order, config_.teaching.epochs, Lesson::kLogits, 1, config_.teaching.rate_of_server()});
  return std::move(ensemble.result);
}

namespace {

const Registration<Algorithms, FedKdConfig> kRegisteredFedKd{
    "fedkd", "one-way distillation of the mean logits, FedKD (Gong et al. 2022)",
    [](const FedKdConfig& config) { return std::make_unique<FedKd>(config); }, kAveragesPredictions};

}  // namespace
}  // namespace chorus::inline distillation
