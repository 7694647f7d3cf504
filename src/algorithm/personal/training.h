#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/ports/procedure.h"

namespace chorus::inline personal {

/// Replies with "update" [S] and the numbers that every aggregation reads (federated/collect.h). A client whose
/// training failed, or whose update is not finite, fails.
std::vector<Answer> answers_of(const TrainResult& result, const at::Tensor& updates, const Workbench& bench);

/// The request's "model" [P], on the device where the clients train.
at::Tensor model_of(const Request& request, const Workbench& bench);

/// Consecutive rounds of local training, each from the end of the last one: `passes` calls of train().
TrainResult train_passes(Workbench& bench, const at::Tensor& start, const TrainWish& wish, std::int64_t passes);
/// Appends `more` to `first`, for the same clients: work adds up, values are the later ones.
void append(TrainResult& first, TrainResult more);

/// Gradients of consecutive minibatches, at values that the procedure chooses. Two probes of one workbench see the same
/// minibatches and dropout masks in the same order.
///
///     GradientProbe probe(bench, start, steps);
///     at::Tensor gradient = probe.at(values);         // [C, P], of the next minibatch of every client
class GradientProbe {
 public:
  /// `steps`: the number of gradients to come, which the learning-rate schedule spans.
  GradientProbe(Workbench& bench, const at::Tensor& start, std::int64_t steps);
  GradientProbe(const GradientProbe&) = delete;
  GradientProbe& operator=(const GradientProbe&) = delete;

  at::Tensor at(const at::Tensor& values);
  /// Of the last gradient: the trainer's learning rates [C, 1] and losses.
  at::Tensor rates() const;
  const LearnResult& last() const { return last_; }

 private:
  at::Tensor gradient_;  // [C, P]
  std::unique_ptr<Learner> learner_;
  LearnResult last_;
};

/// The work of a procedure that makes its own steps: a TrainResult of `steps` steps, with the clients' losses and
/// failures from their gradients.
class StepLog {
 public:
  explicit StepLog(const Workbench& bench);
  void add(const LearnResult& step);
  /// With the values [C, P]; `batches` minibatches were read per client.
  TrainResult result(const at::Tensor& values, Workbench& bench, double batches) const;

 private:
  std::vector<double> loss_, rate_sum_, steps_;
  std::vector<std::string> failures_;
  double seconds_ = 0;
  double added_ = 0;
};

}  // namespace chorus::inline personal
