#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "algorithm/distillation/public_order.h"
#include "core/config/config_visitor.h"
#include "core/ports/algorithm.h"
#include "core/ports/learner.h"

namespace chorus::inline distillation {

/// What a student is taught from predictions:
///
///     hard    cross-entropy with the most probable class
///     soft    T^2 KL(p || softmax(f / T)), p the probabilities (Hinton et al. 2015)
///     logits  mean squared error of the logits
///
/// A task with one score instead of classes (STS-B) is always taught by the mean squared error.
enum class Lesson { kHard, kSoft, kLogits };

std::string name_of(Lesson lesson);
/// DataError for another name.
Lesson lesson_named(const std::string& name);

/// Settings that every method has: how long and in which batches a model learns from the public set.
struct TeachingConfig {
  std::int64_t epochs = 3;       ///< over the public set in each phase of distillation
  std::int64_t batch_size = 32;  ///< rows of the public set per step

  void describe(ConfigVisitor& visitor);
};

/// The order of this round's public batches.
PublicOrder order_of(const RoundInput& input, const TeachingConfig& config);

/// Targets for some answers of a teacher: its logits [n, K], or [C, n, K] for one teacher per client. The logits are
/// divided by the temperature of a soft lesson first.
Targets targets_of(const at::Tensor& logits, Lesson lesson, double temperature = 1);

/// `epochs` epochs of the lesson over the public set: `answers` [N, K] or [C, N, K] are the teacher's logits of all of
/// it. The learner's schedule must span that many steps.
struct Lessons {
  const at::Tensor& answers;
  const PublicOrder& order;
  std::int64_t epochs = 1;
  Lesson lesson = Lesson::kHard;
  double temperature = 1;
};
LearnResult teach(Learner& learner, const Lessons& lessons);

/// Teaches the server's model in place: from input.model, with a new optimizer. Returns the mean loss.
double teach_server(const RoundInput& input, const Lessons& lessons);

/// Logits [N, K] of a model [P] of the server's network on the whole public set.
at::Tensor server_logits(const RoundInput& input, const at::Tensor& model);
/// K, the size of one answer of the server's network.
std::int64_t answer_size(const RoundInput& input);

}  // namespace chorus::inline distillation
