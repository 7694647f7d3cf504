#include "application/trainer/cohort_learner.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "application/trainer/curvature.h"
#include "application/trainer/losses.h"
#include "core/base/error.h"
#include "core/tensor/bfloat16.h"

namespace chorus::inline trainer {
namespace {

LearnResult result_of(const LocalTraining::Record& record, std::size_t trained, std::size_t clients,
                      std::chrono::steady_clock::time_point begin, double steps) {
  LearnResult result;
  result.loss = mean_losses(record.losses, clients);  // waits for a GPU
  result.rate_sum = record.rate_sum;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (std::size_t c = 0; c < clients; ++c) {
    result.steps.push_back(c < trained ? steps : 0);
    result.failures.emplace_back(c >= trained ? kNoRows : std::isfinite(result.loss[c]) ? "" : kNotANumber);
  }
  return result;
}

}  // namespace

CohortLearner::CohortLearner(std::unique_ptr<LocalTraining> training, std::shared_ptr<const PublicTexts> public_set,
                             bool early)
    : training_(std::move(training)), public_set_(std::move(public_set)), early_(early) {
  check(training_->store().owned(), "a learner has values of its own");
  // An optimizer may rely on every client making the first step; clients without rows do not.
  for (std::size_t c = training_->input().plan.batches.size(); c < clients().size(); ++c) {
    training_->optimizer().restore(static_cast<std::int64_t>(c), {});
  }
}

LearnResult CohortLearner::train(std::int64_t steps) {
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t trained = training_->input().plan.batches.size();
  return result_of(training_->train(steps), trained, clients().size(), begin, static_cast<double>(steps));
}

LearnResult CohortLearner::fit(std::span<const std::uint32_t> rows, const Targets& targets,
                               const std::function<void()>& meanwhile) {
  const auto begin = std::chrono::steady_clock::now();
  const TrainerInput& trainer = training_->input().trainer;
  check(public_set_ != nullptr, "there is no public set");
  check_targets(trainer, *public_set_, targets);
  const Use use = !given(targets) || targets.own == 1 ? Use::kLabels : targets.own > 0 ? Use::kBoth : Use::kPredictions;
  Reading reading = read_public({rows, use}, {fits_++, "public-dropout"});
  if (given(targets) && targets.own < 1) reading.batch.batch.answers = at::Tensor();
  const auto loss = [&](const Output& output, const PassInput& input) {
    return target_loss(trainer, *public_set_, output, input.batch, input.targets);
  };
  LocalTraining::GivenPass pass{targets, on_device(trainer, *public_set_)};
  for (at::Tensor* each : {&pass.targets.labels, &pass.targets.probabilities, &pass.targets.votes,
                           &pass.targets.rewards, &pass.targets.scores}) {
    if (each->defined()) *each = each->to(trainer.base.device());
  }
  LocalTraining::Record record;
  {
    std::optional<GpuStreams> streams;
    if (early_) streams.emplace(trainer.base.device());
    pass.streams = streams ? &*streams : nullptr;
    record = training_->step_on(reading, pass, loss);
  }
  if (meanwhile) meanwhile();
  return result_of(record, clients().size(), clients().size(), begin, 1);
}

at::Tensor CohortLearner::predict(std::span<const std::uint32_t> rows) {
  check(public_set_ != nullptr, "there is no public set");
  const auto count = static_cast<std::int64_t>(clients().size());
  return predict_rows(training_->input().trainer, training_->store().active(count), *public_set_, rows);
}

at::Tensor CohortLearner::predict_with_dropout(std::span<const std::uint32_t> rows) {
  check(public_set_ != nullptr, "there is no public set");
  if (!training_->input().config.dropout) return predict(rows);
  const TrainerInput& trainer = training_->input().trainer;
  Reading reading = read_public({rows}, {predictions_++, "prediction-dropout"});
  reading.batch.batch.answers = at::Tensor();
  const auto read = [&](const Output& output, const TaskBatch& batch) {
    return answers_of(trainer, *public_set_, batch, output.logits);
  };
  return training_->predict(reading, {.recordable = on_device(trainer, *public_set_)}, read).to(at::kFloat);
}

ProbeResult CohortLearner::probe(std::int64_t number, const ProbeWish& wish) {
  const auto count = static_cast<std::int64_t>(clients().size());
  check(training_->input().plan.batches.size() == clients().size(), "a probe needs data");
  const bool known = probed_batch_ && probed_number_ == number && !training_->input().trainer.task.rows_change();
  Reading reading =
      training_->reader().read_again(count, number, probes_++, "probe-dropout", known ? &*probed_batch_ : nullptr);
  probed_batch_ = reading.batch;
  probed_number_ = number;
  return training_->probe(std::move(reading), wish);
}

at::Tensor CohortLearner::curvature(std::int64_t number, const at::Tensor& direction) {
  const auto trained = static_cast<std::int64_t>(training_->input().plan.batches.size());
  at::Tensor result = torch::zeros_like(values());
  if (trained == 0) return result;
  Reading reading = training_->reader().read_again(trained, number, probes_++, "probe-dropout");
  if (!training_->input().config.dropout) reading.dropout = Dropout();
  result.narrow(0, 0, trained)
      .copy_(hessian_times(training_->input().trainer, values().narrow(0, 0, trained), direction.narrow(0, 0, trained),
                           std::move(reading)));
  return result;
}

void CohortLearner::set_values(const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  const Params& params = training_->store().params();
  params.values().copy_(values.dim() == 1 ? values.unsqueeze(0) : values);
  if (params.shadow().exists()) put_as_bfloat16(params.shadow().values(), params.values());
}

void CohortLearner::retain(std::span<const std::size_t> remaining) {
  training_->retain(remaining);
  read_batch_.reset();
  probed_batch_.reset();
}

void CohortLearner::read_ahead(std::span<const std::uint32_t> rows) {
  check(public_set_ != nullptr, "there is no public set");
  // What a language model is asked about its rows is known with the targets only.
  const bool changes = training_->input().trainer.task.rows_change();
  if (!changes && !public_set_->words) read_public({rows}, {fits_, "public-dropout"});
}

Reading CohortLearner::read_public(const PublicBatch& what, const Draws& draws) {
  std::vector<std::uint32_t> chosen;
  const std::vector<ClientRows> cohort = public_cohort(*public_set_, what.rows, clients(), chosen);
  const BatchReader& reader = training_->reader();
  const TrainerInput& trainer = training_->input().trainer;
  const SharedWords* words = public_set_->words.get();
  const Use use = words != nullptr ? what.use : Use::kLabels;
  const bool changes = use != Use::kPredictions && trainer.task.rows_change();
  if (changes || !read_batch_ || use != read_use_ || !std::ranges::equal(what.rows, read_rows_)) {
    if (use == Use::kPredictions) {
      read_batch_ = words->collate(cohort, what.rows, trainer.base.device());
      if (trainer.model.head()->fuses_loss) read_batch_->batch.answers = read_batch_->labels;
    } else {
      read_batch_ = reader.read_rows(cohort, draws.number, draws.purpose).batch;
      if (use == Use::kBoth) words->add_to(*read_batch_, what.rows);
    }
    read_rows_.assign(what.rows.begin(), what.rows.end());
    read_use_ = use;
  }
  return reader.read_rows(cohort, *read_batch_, draws.number, draws.purpose);
}

}  // namespace chorus::inline trainer
