#include "algorithm/distillation/teaching.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline distillation {

std::string name_of(Lesson lesson) {
  return lesson == Lesson::kHard ? "hard" : lesson == Lesson::kSoft ? "soft" : "logits";
}

Lesson lesson_named(const std::string& name) {
  for (const Lesson lesson : {Lesson::kHard, Lesson::kSoft, Lesson::kLogits}) {
    if (name_of(lesson) == name) return lesson;
  }
  throw DataError(fmt::format("\"{}\" is no way to learn from predictions", name));
}

void TeachingConfig::describe(ConfigVisitor& visitor) {
  visitor.field("epochs", epochs, "passes over the public set in each phase of distillation").at_least(1);
  visitor.field("batch_size", batch_size, "rows of the public set per step").at_least(1);
  visitor.field("rate", rate, "factor of trainer.learning_rate while learning from predictions")
      .above(0)
      .at_most(kMostRate);
  visitor.field("server_rate", server_rate, "the same for the server's model; without it: rate")
      .above(0)
      .at_most(kMostRate);
  visitor
      .field("text_loss", text_loss,
             "language models: share of their own loss on the public texts in the loss, the rest is for predictions; "
             "without it: 0.5")
      .at_least(0)
      .at_most(1);
}

double text_loss_of(const RoundInput& input, const TeachingConfig& config) {
  if (input.server->public_texts_teach()) return config.text_loss.value_or(kTextLoss);
  if (config.text_loss.value_or(0) == 0) return 0;
  throw ConfigError(no_text_loss(*config.text_loss));
}

std::string no_text_loss(double share) {
  return fmt::format(
      "algorithm.text_loss is {}, but only language models can learn from public texts alone; remove it for this task",
      share);
}

PublicOrder order_of(const RoundInput& input, const TeachingConfig& config) {
  check(input.server != nullptr, "distillation needs a public set");
  PublicOrder order;
  order.rows = input.server->public_rows();
  order.offsets = input.server->public_offsets();
  order.batch_size = static_cast<std::uint64_t>(config.batch_size);
  order.seed = RandomStream({.seed = input.seed, .purpose = "public-seed"}).next_u64() >> 11;
  order.round = input.round;
  return order;
}

Targets targets_of(const at::Tensor& logits, Lesson lesson, double temperature) {
  Targets targets;
  if (lesson == Lesson::kLogits || logits.size(-1) == 1) {
    targets.scores = logits;
  } else if (lesson == Lesson::kHard) {
    targets.labels = logits.argmax(-1);
  } else {
    targets.probabilities = at::softmax(logits / temperature, -1);
    targets.temperature = temperature;
  }
  return targets;
}

Lessons lessons_of(const RoundInput& input, const TeachingConfig& config, const at::Tensor& answers,
                   const PublicOrder& order) {
  Lessons lessons{answers, order, config.epochs};
  lessons.rate = config.rate;
  lessons.server_rate = config.rate_of_server();
  lessons.text_loss = text_loss_of(input, config);
  return lessons;
}

LearnResult teach(Learner& learner, const Lessons& lessons) {
  const std::uint64_t steps = static_cast<std::uint64_t>(lessons.epochs) * lessons.order.batches();
  LearnResult sum;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::vector<std::uint32_t> rows = lessons.order.batch(step);
    Targets targets = targets_of(lessons.order.answers_for(rows, lessons.answers), lessons.lesson, lessons.temperature);
    targets.own = lessons.text_loss;
    const LearnResult one = learner.fit(rows, targets);
    if (step == 0) {
      sum = one;
      continue;
    }
    for (std::size_t c = 0; c < sum.loss.size(); ++c) {
      sum.loss[c] += one.loss[c];
      sum.steps[c] += one.steps[c];
      sum.rate_sum[c] += one.rate_sum[c];
      if (sum.failures[c].empty()) sum.failures[c] = one.failures[c];
    }
    sum.seconds += one.seconds;
  }
  for (double& loss : sum.loss) loss /= static_cast<double>(steps);
  return sum;
}

double teach_server(const RoundInput& input, const Lessons& lessons) {
  LearnerWish wish;
  wish.steps = lessons.epochs * static_cast<std::int64_t>(lessons.order.batches());
  wish.rate = lessons.server_rate;
  const auto learner = input.server->learner(input.model, wish);
  const LearnResult result = teach(*learner, lessons);
  if (!result.failures[0].empty()) throw DataError("the server's distillation failed: " + result.failures[0]);
  input.model.copy_(learner->values()[0]);
  return result.loss[0];
}

void describe_query(ConfigVisitor& visitor, bool& query) {
  visitor.field("query", query, "the server also trains on its labelled query set in every round");
}

void learn_queries(const RoundInput& input, bool query, RoundResult& result) {
  if (!query) return;
  const TrainResult trained = input.server->train(input.model);
  if (!trained.failures[0].empty()) throw DataError("training on the query set failed: " + trained.failures[0]);
  input.model.copy_(trained.values[0]);
  result.numbers["query_loss"] = trained.loss[0];
}

at::Tensor server_logits(const RoundInput& input, const at::Tensor& model) {
  PublicOrder order;
  order.rows = input.server->public_rows();
  return input.server->predict(model, order.all())[0];
}

namespace {

std::int64_t outputs(Workbench& server, const at::Tensor& model) {
  const std::vector<std::uint32_t> first{0};
  return server.predict(model, first).size(-1);
}

}  // namespace

std::int64_t answer_size(const RoundInput& input) { return outputs(*input.server, input.model); }

AnswerShape answer_shape(Workbench& server) {
  PublicOrder order;
  order.rows = server.public_rows();
  order.offsets = server.public_offsets();
  return {order.answers(), outputs(server, server.beginning())};
}

}  // namespace chorus::inline distillation
