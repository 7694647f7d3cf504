#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/ports/procedure.h"

namespace chorus::inline personal {

/// Replies with "update" [S] and the numbers that every aggregation reads (federated/collect.h). A client that failed,
/// or whose update is not finite, fails.
std::vector<Answer> answers_of(const TrainResult& result, const at::Tensor& updates, const Workbench& bench);

/// The request's "model" [P], where the clients train.
at::Tensor model_of(const Request& request, const Workbench& bench);

/// Several rounds of local training one after the other, each from where the last one ended: `passes` of train().
TrainResult train_passes(Workbench& bench, const at::Tensor& start, const TrainWish& wish, std::int64_t passes);
/// `more` comes after `first`, of the same clients: work adds up, values are the later ones.
void append(TrainResult& first, TrainResult more);

/// Gradients of one minibatch after the other, at values of the procedure's choice. Two probes of one workbench see the
/// same minibatches and dropout masks in the same order.
///
///     GradientProbe probe(bench, start, steps);
///     at::Tensor gradient = probe.at(values);         // [C, P], of the next minibatch of every client
class GradientProbe {
 public:
  /// `steps`: how many gradients are asked for, which the learning-rate schedule spans.
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

/// What a procedure did that trains in steps of its own: a TrainResult of `steps` steps, the loss and failures of the
/// clients as their gradients told.
class StepLog {
 public:
  explicit StepLog(const Workbench& bench);
  void add(const LearnResult& step);
  /// With these values [C, P]; `batches` minibatches were read for each client.
  TrainResult result(const at::Tensor& values, Workbench& bench, double batches) const;

 private:
  std::vector<double> loss_, rate_sum_, steps_;
  std::vector<std::string> failures_;
  double seconds_ = 0;
  double added_ = 0;
};

}  // namespace chorus::inline personal
