#include "algorithm/distillation/mhat.h"

#include <ATen/ATen.h>

#include "core/base/error.h"

namespace chorus::inline distillation {

void MhatConfig::describe(ConfigVisitor& visitor) {
  teaching.describe(visitor);
  describe_query(visitor, query);
  visitor.field("labels", lesson, {{"hard", Lesson::kHard}, {"soft", Lesson::kSoft}},
                "hard: most probable classes; soft: probabilities");
}

at::Tensor votes_of(const at::Tensor& logits, Lesson lesson) {
  return to_send(logits, lesson == Lesson::kSoft ? Sent::kProbabilities : Sent::kVotes);
}

double teach_votes(const RoundInput& input, const at::Tensor& votes, const PublicOrder& order,
                   const TeachingConfig& teaching) {
  const std::int64_t steps = teaching.epochs * static_cast<std::int64_t>(order.batches());
  LearnerWish wish;
  wish.steps = steps;
  wish.rate = teaching.rate_of_server();
  const auto learner = input.server->learner(input.model, wish);
  const double own = text_loss_of(input, teaching);
  double loss = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::vector<std::uint32_t> rows = order.batch(static_cast<std::uint64_t>(step));
    Targets targets;
    (votes.size(1) == 1 ? targets.scores : targets.votes) = order.answers_for(rows, votes);
    targets.own = own;
    const LearnResult result = learner->fit(rows, targets);
    if (!result.failures[0].empty()) throw DataError("the server's distillation failed: " + result.failures[0]);
    loss += result.loss[0];
  }
  input.model.copy_(learner->values()[0]);
  return loss / static_cast<double>(steps);
}

RoundResult Mhat::round(const RoundInput& input) {
  const PublicOrder order = order_of(input, config_.teaching);
  Request request = predict_request(input, order);
  request.body.texts["answers"] = name_of(config_.lesson == Lesson::kSoft ? Sent::kProbabilities : Sent::kVotes);
  Ensemble ensemble = gather(input, std::move(request));
  note_predictions(input, ensemble, true);
  if (!ensemble.mean.defined()) return std::move(ensemble.result);
  ensemble.result.numbers["server_loss"] = teach_votes(input, ensemble.mean, order, config_.teaching);
  learn_queries(input, config_.query, ensemble.result);
  const at::Tensor answers = server_logits(input, input.model);
  Lessons lessons = lessons_of(input, config_.teaching, answers, order);
  lessons.lesson = config_.lesson;
  ask_to_learn(input, learn_request(input, lessons), ensemble.result);
  return std::move(ensemble.result);
}

namespace {

const Registration<Algorithms, MhatConfig> kRegisteredMhat{
    "mhat", "the server learns from every client's predictions, MHAT (Hu et al. 2021)",
    [](const MhatConfig& config) { return std::make_unique<Mhat>(config); }, kAveragesPredictions};

}  // namespace
}  // namespace chorus::inline distillation
