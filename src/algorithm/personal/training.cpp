#include "algorithm/personal/training.h"

#include <ATen/ATen.h>

#include "core/base/error.h"

namespace chorus::inline personal {

std::vector<Answer> answers_of(const TrainResult& result, const at::Tensor& updates, const Workbench& bench) {
  const double seconds = result.seconds / static_cast<double>(bench.clients().size());
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    Answer answer;
    answer.failure = result.failures[i];
    const at::Tensor update = updates[static_cast<std::int64_t>(i)];
    if (answer.failure.empty() && !at::isfinite(update).all().item<bool>()) {
      answer.failure = "its update has numbers that are not finite";
    }
    answer.body.tensors["update"] = update;
    answer.finite = "update";
    answer.body.numbers = {
        {"examples", result.examples[i]}, {"batches", result.batches[i]}, {"steps", result.steps[i]},
        {"reach", result.normalizer[i]},  {"seconds", seconds},           {"rate_sum", result.rate_sum[i]},
        {"loss", result.loss[i]}};
    answers.push_back(std::move(answer));
  }
  return answers;
}

at::Tensor model_of(const Request& request, const Workbench& bench) {
  return request.body.vector("model", bench.parameters()).to(bench.beginning().device());
}

void append(TrainResult& first, TrainResult more) {
  first.values = more.values;
  first.loss = std::move(more.loss);
  first.finite = std::move(more.finite);
  first.seconds += more.seconds;
  for (std::size_t i = 0; i < first.failures.size(); ++i) {
    first.batches[i] += more.batches[i];
    first.steps[i] += more.steps[i];
    first.rate_sum[i] += more.rate_sum[i];
    first.normalizer[i] += more.normalizer[i];
    if (first.failures[i].empty()) first.failures[i] = std::move(more.failures[i]);
  }
}

TrainResult train_passes(Workbench& bench, const at::Tensor& start, const TrainWish& wish, std::int64_t passes) {
  check(passes > 0 && !wish.updates, "training has passes and gives values");
  TrainResult result = bench.train(start, wish);
  for (std::int64_t pass = 1; pass < passes; ++pass) append(result, bench.train(result.values, wish));
  return result;
}

GradientProbe::GradientProbe(Workbench& bench, const at::Tensor& start, std::int64_t steps) {
  LearnerWish wish;
  wish.steps = steps;
  wish.train.adjust = [this](const at::Tensor&, const at::Tensor& gradients) {
    gradient_.narrow(0, 0, gradients.size(0)).copy_(gradients);
    gradients.zero_();  // the step that follows has no effect
  };
  gradient_ = at::zeros({static_cast<std::int64_t>(bench.clients().size()), bench.parameters()}, start.options());
  learner_ = bench.learner(start, wish);
}

at::Tensor GradientProbe::at(const at::Tensor& values) {
  learner_->set_values(values);
  gradient_.zero_();
  last_ = learner_->train(1);
  return gradient_.clone();
}

at::Tensor GradientProbe::rates() const {
  return at::tensor(last_.rate_sum, at::kDouble).to(gradient_.options()).unsqueeze(1);
}

StepLog::StepLog(const Workbench& bench)
    : loss_(bench.clients().size(), 0.0),
      rate_sum_(bench.clients().size(), 0.0),
      steps_(bench.clients().size(), 0.0),
      failures_(bench.clients().size()) {}

void StepLog::add(const LearnResult& step) {
  added_ += 1;
  seconds_ += step.seconds;
  for (std::size_t i = 0; i < loss_.size(); ++i) {
    loss_[i] += step.loss[i];
    rate_sum_[i] += step.rate_sum[i];
    steps_[i] += step.steps[i];
    if (failures_[i].empty()) failures_[i] = step.failures[i];
  }
}

TrainResult StepLog::result(const at::Tensor& values, Workbench& bench, double batches) const {
  TrainResult result;
  result.values = values;
  result.rate_sum = rate_sum_;
  result.steps = result.normalizer = steps_;
  result.failures = failures_;
  result.seconds = seconds_;
  for (std::size_t i = 0; i < loss_.size(); ++i) {
    result.loss.push_back(added_ > 0 ? loss_[i] / added_ : 0);
    result.batches.push_back(batches);
    result.examples.push_back(bench.examples(i));
    result.finite.push_back(true);
  }
  return result;
}

}  // namespace chorus::inline personal
