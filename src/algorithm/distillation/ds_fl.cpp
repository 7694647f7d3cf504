#include "algorithm/distillation/ds_fl.h"

#include <ATen/ATen.h>

namespace chorus::inline distillation {

void DsFlConfig::describe(ConfigVisitor& visitor) {
  teaching.describe(visitor);
  describe_query(visitor, query);
  visitor.field("temperature", temperature, "of the entropy reduction; below 1 it sharpens the mean").above(0);
  visitor.field("labels", lesson, {{"hard", Lesson::kHard}, {"soft", Lesson::kSoft}},
                "hard: the most probable class of the mean; soft: its probabilities");
  visitor.field("send", sent,
                {{"logits", Sent::kLogits}, {"probabilities", Sent::kProbabilities}, {"votes", Sent::kVotes}},
                "what clients send: logits, probabilities, or one vote per prediction (PATE)");
}

RoundResult DsFl::round(const RoundInput& input) {
  const PublicOrder order = order_of(input, config_.teaching);
  Request request = predict_request(input, order);
  request.body.texts["answers"] = name_of(config_.sent);
  Ensemble ensemble = gather(input, std::move(request));
  note_predictions(input, ensemble, true);
  if (!ensemble.mean.defined()) return std::move(ensemble.result);
  // A regression score has no entropy.
  const at::Tensor answers = ensemble.mean.size(1) > 1 ? ensemble.mean / config_.temperature : ensemble.mean;
  Lessons lessons = lessons_of(input, config_.teaching, answers, order);
  lessons.lesson = config_.lesson;
  ensemble.result.numbers["server_loss"] = teach_server(input, lessons);
  learn_queries(input, config_.query, ensemble.result);
  ask_to_learn(input, learn_request(input, lessons), ensemble.result);
  return std::move(ensemble.result);
}

namespace {

const Registration<Algorithms, DsFlConfig> kRegisteredDsFl{
    "ds_fl", "distillation from sharpened mean predictions, DS-FL (Itahara et al. 2021)",
    [](const DsFlConfig& config) { return std::make_unique<DsFl>(config); }, kAveragesPredictions};

}  // namespace
}  // namespace chorus::inline distillation
