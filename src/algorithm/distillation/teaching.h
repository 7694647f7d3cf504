#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "algorithm/distillation/public_order.h"
#include "core/config/config_visitor.h"
#include "core/ports/algorithm.h"
#include "core/ports/learner.h"

namespace chorus::inline distillation {

/// The loss of a student on a teacher's predictions:
///
///     hard    cross-entropy with the most probable class
///     soft    T^2 KL(p || softmax(f / T)), p the probabilities (Hinton et al. 2015)
///     logits  mean squared error of the logits
///
/// A task with one score instead of classes (STS-B) always uses the mean squared error.
enum class Lesson { kHard, kSoft, kLogits };

std::string name_of(Lesson lesson);
/// DataError for another name.
Lesson lesson_named(const std::string& name);

/// The largest factor of the learning rate.
inline constexpr double kMostRate = 1000;

/// Settings of every method: how long and in which batches a model learns from the public set.
struct TeachingConfig {
  std::int64_t epochs = 3;                 ///< over the public set in each phase of distillation
  std::int64_t batch_size = 32;            ///< rows of the public set per step
  double rate = 1;                         ///< factor of the trainer's learning rate while learning from predictions
  std::optional<double> server_rate = {};  ///< the same for the server's model; default: rate
  /// Share of the language-modelling loss on the public texts in the loss; the rest is for the predictions. 1: networks
  /// learn the texts and nothing from each other. Default: kTextLoss for language models.
  std::optional<double> text_loss = {};

  double rate_of_server() const { return server_rate.value_or(rate); }
  void describe(ConfigVisitor& visitor);
};
inline constexpr double kTextLoss = 0.5;

/// TeachingConfig::text_loss for the run's task; 0 for tasks whose public texts are not their own labels. ConfigError
/// if such a task has the setting.
double text_loss_of(const RoundInput& input, const TeachingConfig& config);
/// What it says.
std::string no_text_loss(double share);

/// The order of this round's public batches.
PublicOrder order_of(const RoundInput& input, const TeachingConfig& config);

/// Targets from a teacher's logits [n, K], or [C, n, K] for one teacher per client. A soft lesson first divides the
/// logits by the temperature.
Targets targets_of(const at::Tensor& logits, Lesson lesson, double temperature = 1);

/// `epochs` epochs of the lesson over the public set: `answers` [N, K] or [C, N, K] are the teacher's logits for all
/// rows. The learner's schedule must span that many steps.
///
///     loss of a step = text_loss * (language-modelling loss of the texts) + (1 - text_loss) * (loss of the lesson)
///
/// as in FedMKT (Fan et al. 2024), so that a network which learns how words begin does not forget how they continue.
struct Lessons {
  const at::Tensor& answers;
  const PublicOrder& order;
  std::int64_t epochs = 1;
  Lesson lesson = Lesson::kHard;
  double temperature = 1;
  double rate = 1, server_rate = 1;
  double text_loss = 0;
};
/// With the epochs, rates and share of `config`.
Lessons lessons_of(const RoundInput& input, const TeachingConfig& config, const at::Tensor& answers,
                   const PublicOrder& order);
LearnResult teach(Learner& learner, const Lessons& lessons);

/// Trains the server's model in place: from input.model, with a new optimizer. Returns the mean loss.
double teach_server(const RoundInput& input, const Lessons& lessons);

/// A setting of some methods: after the predictions the server's model also learns the labelled query set, as a client
/// learns its own data. FedID has these labels in any case; Ma et al. 2023 train the servers of its baselines on them
/// where the methods are compared by the number of labels.
void describe_query(ConfigVisitor& visitor, bool& query);
/// Trains input.model there and adds query_loss to the numbers, if `query`.
void learn_queries(const RoundInput& input, bool query, RoundResult& result);

/// Logits [N, K] of a model [P] of the server's network on the whole public set.
at::Tensor server_logits(const RoundInput& input, const at::Tensor& model);
/// K, the number of outputs of the server's network.
std::int64_t answer_size(const RoundInput& input);

/// The predictions of the whole public set: N of K numbers.
struct AnswerShape {
  std::int64_t answers = 0, size = 0;
  std::int64_t elements() const { return answers * size; }
};
/// Of the server's network, before the first round.
AnswerShape answer_shape(Workbench& server);

}  // namespace chorus::inline distillation
