#include "algorithm/distillation/calibrated.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "algorithm/distillation/mhat.h"
#include "core/base/error.h"

namespace chorus::inline distillation {

void CalibratedConfig::describe(ConfigVisitor& visitor) {
  teaching.describe(visitor);
  visitor.field("prior", prior, "how far each client's class frequencies are corrected; 0: not at all")
      .at_least(0)
      .at_most(2);
  visitor.field("confidence", confidence, "how much more a confident prediction counts; 0: all count the same")
      .at_least(0)
      .at_most(10);
  visitor.field("trust", trust, "how much more a client counts that agrees with the query set; 0: all count the same")
      .at_least(0)
      .at_most(100);
  describe_query(visitor, query);
}

void weigh_by_agreement(std::vector<ClientAnswers>& clients, const at::Tensor& reference, double gamma) {
  const bool scores = reference.size(1) == 1;
  const at::Tensor right = scores ? reference : at::softmax(reference, -1);
  std::vector<double> losses;
  for (const ClientAnswers& client : clients) {
    const at::Tensor loss = scores ? (client.answers - right).square().mean()
                                   : -(right * client.answers.clamp_min(1e-12).log()).sum(-1).mean();
    losses.push_back(loss.item<double>());
  }
  const double least = *std::min_element(losses.begin(), losses.end());
  for (std::size_t k = 0; k < clients.size(); ++k) clients[k].weight *= std::exp(-gamma * (losses[k] - least));
}

at::Tensor calibrated_mean(const std::vector<ClientAnswers>& clients, double prior, double confidence) {
  check(!clients.empty(), "an ensemble has members");
  const std::int64_t size = clients[0].answers.size(1);
  double weights = 0;
  at::Tensor common;
  for (const ClientAnswers& client : clients) {
    weights += client.weight;
    const at::Tensor share = client.answers.mean(0) * client.weight;
    common = common.defined() ? common + share : share;
  }
  common = common / weights;
  at::Tensor sum, total;
  for (const ClientAnswers& client : clients) {
    at::Tensor adjusted = client.answers;
    at::Tensor count = at::full({adjusted.size(0), 1}, client.weight, adjusted.options());
    if (size > 1) {
      const at::Tensor factors = (common.clamp_min(1e-6) / client.answers.mean(0).clamp_min(1e-6)).pow(prior);
      adjusted = adjusted.clamp_min(1e-12) * factors;
      adjusted = adjusted / adjusted.sum(-1, true);
      const at::Tensor entropy = -(adjusted * adjusted.clamp_min(1e-12).log()).sum(-1, true);
      const at::Tensor sure = (1 - entropy / std::log(static_cast<double>(size))).clamp(1e-6, 1);
      count = count * sure.pow(confidence);
    }
    const at::Tensor part = adjusted * count;
    sum = sum.defined() ? sum + part : part;
    total = total.defined() ? total + count : count;
  }
  return sum / total;
}

namespace {

// What the server's model would predict if it trained on the query set now.
at::Tensor reference(const RoundInput& input) {
  const TrainResult trained = input.server->train(input.model);
  if (!trained.failures[0].empty()) throw DataError("training on the query set failed: " + trained.failures[0]);
  return server_logits(input, trained.values[0]);
}

}  // namespace

RoundResult Calibrated::round(const RoundInput& input) {
  const PublicOrder order = order_of(input, config_.teaching);
  const std::int64_t rows = order.answers(), size = answer_size(input);
  // By client, so that the sum does not depend on the order of arrival.
  std::map<ClientId, ClientAnswers> answers;
  EnsemblePlan plan;
  plan.look = [&](const Reply& reply, double weight) {
    const at::Tensor& flat = reply.body.vector("predictions", rows * size);
    if (size > 1 && (flat.min().item<double>() < 0 || flat.max().item<double>() > 1 + 1e-5)) {
      throw DataError("its predictions are not probabilities");
    }
    answers[reply.client] = {weight, flat.view({rows, size}).to(input.model.device())};
  };
  Request request = predict_request(input, order);
  request.body.texts["answers"] = name_of(Sent::kProbabilities);
  Ensemble ensemble = gather(input, std::move(request), plan);
  note_predictions(input, ensemble, true);
  if (!ensemble.mean.defined()) return std::move(ensemble.result);
  std::vector<ClientAnswers> used;
  for (auto& entry : answers) used.push_back(std::move(entry.second));
  if (config_.trust > 0) weigh_by_agreement(used, reference(input), config_.trust);
  const at::Tensor targets = calibrated_mean(used, config_.prior, config_.confidence);
  ensemble.result.numbers["server_loss"] = teach_votes(input, targets, order, config_.teaching);
  learn_queries(input, config_.query, ensemble.result);
  const at::Tensor taught = server_logits(input, input.model);
  Lessons lessons = lessons_of(input, config_.teaching, taught, order);
  lessons.lesson = Lesson::kSoft;
  ask_to_learn(input, learn_request(input, lessons), ensemble.result);
  return std::move(ensemble.result);
}

namespace {

const Registration<Algorithms, CalibratedConfig> kRegisteredCalibrated{
    "calibrated", "distillation from a calibrated, confidence-weighted ensemble and the query set",
    [](const CalibratedConfig& config) { return std::make_unique<Calibrated>(config); }, kLooksAtPredictions};

}  // namespace
}  // namespace chorus::inline distillation
