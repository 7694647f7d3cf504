#include "application/trainer/local_training.h"

#include <torch/autograd.h>

#include <algorithm>

#include "application/models/loss.h"
#include "application/trainer/early_step.h"
#include "application/trainer/frozen_ranges.h"
#include "application/trainer/losses.h"
#include "core/base/error.h"
#include "core/base/stop_point.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline trainer {

LocalTraining::LocalTraining(LocalTrainingInput input, std::vector<ClientBatches> batches,
                             std::unique_ptr<ValueStore> store)
    : input_(std::move(input)),
      batches_(std::move(batches)),
      store_(std::move(store)),
      reader_({input_.trainer, input_.clients, input_.moment, input_.read_ahead}, batches_, *store_),
      optimizer_(input_.config.optimizer.make(
          OptimizerInput{store_->params().shared_layout(), store_->params().clients(), store_->params().device(),
                         input_.config.weight_decay, input_.config.decay_matrices_only})) {
  check(std::is_sorted(input_.plan.batches.rbegin(), input_.plan.batches.rend()),
        "clients come in the order of falling work");
}

LocalTraining::Record LocalTraining::train(std::int64_t steps, const How& how) {
  Record record{.rate_sum = std::vector<double>(input_.clients.size(), 0.0)};
  const TrainingPlan& plan = input_.plan;
  const std::int64_t accumulate = input_.config.accumulate, end = next_batch_ + steps * accumulate;
  for (std::int64_t first = next_batch_; first < end && plan.readers(first) > 0; first += accumulate) {
    stop_point();
    const std::int64_t clients = plan.readers(first), used = store_->used_until(first + accumulate - 1);
    const std::vector<double> rates = next_rates(clients, record);
    const bool last = how.last && (first + accumulate >= end || plan.readers(first + accumulate) == 0);
    std::optional<EarlyStep> early;
    if (how.streams != nullptr && store_->owned()) {
      early.emplace(*how.streams, *optimizer_, store_->active(clients), EarlyStep::Input{rates, last});
    }
    for (std::int64_t number = first; number < first + accumulate && plan.readers(number) > 0; ++number) {
      record.losses.push_back(
          run_pass(reader_.take(plan.readers(number), number),
                   {number == first, used, early ? early->taker() : GradientTaker(), how.streams, end - 1}));
    }
    if (early) {
      early->finish(used);
    } else {
      finish_step({clients, used, rates, {}, last});
    }
    next_batch_ = first + accumulate;
  }
  return record;
}

at::Tensor LocalTraining::run_pass(Reading reading, const Pass& pass) {
  const std::int64_t next = reading.number + 1, next_clients = input_.plan.readers(next);
  const bool more = next <= pass.last_batch && next_clients > 0;
  PassInput input{std::move(reading.batch), input_.config.dropout ? std::move(reading.dropout) : Dropout(),
                  factors(reading.clients, reading.number), pass.begins};
  const at::Tensor losses = store_->run(reading.clients, input, [&](Params& params, PassInput& in) {
    if (in.begins) params.writes().begin(pass.used, pass.taker);
    Dropout dropout = in.dropout;
    if (input_.wish.teacher.values.defined()) in.batch.batch.answers = at::Tensor();  // it needs logits
    const Output output = input_.trainer.model.steady_answer(params, in.batch.batch, dropout);
    at::Tensor loss = input_.trainer.task.loss(output, in.batch);
    if (input_.wish.teacher.values.defined()) loss = loss + teacher_loss(output, in.batch);
    if (more && !store_->records()) reader_.begin(next_clients, next, BatchReader::When::kBeside, pass.streams);
    torch::autograd::backward({loss}, {in.factors});
    if (in.begins) params.writes().end();
    return loss.detach();
  });
  if (more && store_->records()) reader_.begin(next_clients, next, BatchReader::When::kNow);
  return losses;
}

// [A], see TrainWish::Teacher.
at::Tensor LocalTraining::teacher_loss(const Output& output, const TaskBatch& batch) const {
  const TrainWish::Teacher& teacher = input_.wish.teacher;
  const std::int64_t clients = output.logits.size(0);
  if (!batch.labels.defined() || output.logits.dim() != 3 || output.logits.size(1) != batch.labels.size(1)) {
    throw ConfigError("this task's predictions are no distributions over classes, so no teacher can be followed");
  }
  at::Tensor soft;
  {
    const at::NoGradGuard no_grad;
    Dropout off;
    const Params params = Params::views_of_start(
        input_.trainer.base, clients, teacher.values.narrow(0, 0, clients).to(output.logits.device()), false);
    soft = torch::log_softmax(input_.trainer.model.forward(params, batch.batch, off).logits / teacher.temperature, -1);
  }
  const at::Tensor mine = torch::log_softmax(output.logits / teacher.temperature, -1);
  const at::Tensor counted = batch.labels.ne(kIgnore);
  const at::Tensor each = (soft.exp() * (soft - mine)).sum(-1).masked_fill(counted.logical_not(), 0);
  const std::vector<double> weights(teacher.weights.begin(), teacher.weights.begin() + clients);
  const at::Tensor scale = torch::tensor(weights, at::kFloat).to(output.logits.device());
  return scale * (teacher.temperature * teacher.temperature) * each.sum(1) / counted.sum(1).clamp_min(1);
}

PassInput LocalTraining::input_of(const Reading& reading, PassKind kind) const {
  PassInput input{reading.batch, input_.config.dropout ? reading.dropout : Dropout()};
  input.kind = kind;
  return input;
}

LocalTraining::Record LocalTraining::step_on(const Reading& reading, const GivenPass& pass, const Loss& loss) {
  Record record{.rate_sum = std::vector<double>(input_.clients.size(), 0.0)};
  Params& active = store_->active(reading.clients);
  const std::int64_t all = active.values().size(1);
  const std::vector<double> rates = next_rates(reading.clients, record);
  std::optional<EarlyStep> early;
  if (pass.streams != nullptr) early.emplace(*pass.streams, *optimizer_, active, EarlyStep::Input{rates, false, once_});
  const auto both = [&](Params& params, PassInput& in) {
    params.writes().begin(all, early ? early->taker() : GradientTaker());
    Dropout dropout = in.dropout;
    const at::Tensor losses = loss(input_.trainer.model.answer(params, in.batch.batch, dropout), in);
    losses.sum().backward();
    params.writes().end();
    return losses.detach();
  };
  PassInput input = input_of(reading, PassKind::kFit);
  input.targets = pass.targets;
  record.losses.push_back(pass.recordable ? store_->run(reading.clients, input, both) : both(active, input));
  if (early) {
    early->finish(all);
  } else {
    finish_step({reading.clients, all, rates, {}, false});
  }
  return record;
}

at::Tensor LocalTraining::predict(const Reading& reading, const GivenPass& pass, const Read& read) {
  const at::NoGradGuard no_grad;
  const auto forward = [&](Params& params, PassInput& in) {
    Dropout dropout = in.dropout;
    return read(input_.trainer.model.answer(params, in.batch.batch, dropout), in.batch);
  };
  PassInput input = input_of(reading, PassKind::kPredict);
  return pass.recordable ? store_->run(reading.clients, input, forward)
                         : forward(store_->active(reading.clients), input);
}

ProbeResult LocalTraining::probe(Reading reading, const ProbeWish& wish) {
  const at::AutoGradMode with_gradients(wish.gradients);
  if (!wish.dropout) reading.dropout = Dropout();
  PassInput input = input_of(reading, PassKind::kProbe);
  const auto loss_of = [&](Params& params, PassInput& in) {
    Dropout dropout = in.dropout;
    return input_.trainer.task.loss(input_.trainer.model.answer(params, in.batch.batch, dropout), in.batch);
  };
  ProbeResult result;
  if (wish.gradients) {
    Params& params = store_->active(reading.clients);
    params.writes().begin(params.values().size(1));
    const at::Tensor losses = loss_of(params, input);
    losses.sum().backward();
    params.writes().end();
    result.gradients = params.grads().clone();
    result.loss = as_doubles(losses.detach());
  } else {
    result.loss = as_doubles(store_->run(reading.clients, input, loss_of));
  }
  return result;
}

void LocalTraining::renew(std::int64_t steps) {
  optimizer_->forget();
  once_ = steps == 1;
  input_.plan.schedule.assign(input_.clients.size(), steps);
  step_ = 0;
}

// The rest of a step once the gradients are computed.
void LocalTraining::finish_step(const ValueStore::Step& step) {
  const TrainWish& wish = input_.wish;
  const Params& now = store_->active(step.clients);
  const at::Tensor values = now.values().narrow(1, 0, step.used), gradients = now.grads().narrow(1, 0, step.used);
  if (wish.proximal != 0) {
    const at::Tensor start = store_->start();
    const at::Tensor begun = start.size(0) == 1 ? start : start.narrow(0, 0, step.clients);
    gradients.add_(values, wish.proximal).sub_(begun.narrow(1, 0, step.used), wish.proximal);
  }
  if (wish.adjust) wish.adjust(now.values(), now.grads());
  const FrozenRanges frozen(wish.frozen, now);
  const double clip = input_.config.clip;
  ValueStore::Step scaled = step;
  scaled.once = once_;
  if (clip > 0) scaled.scale = clip_scales(gradients, clip);
  store_->step(*optimizer_, scaled);
  frozen.restore(store_->active(step.clients));
}

// The learning rates of the next optimizer step; counts the step.
std::vector<double> LocalTraining::next_rates(std::int64_t clients, Record& record) {
  std::vector<double> rates = input_.plan.rates(input_.config, input_.moment, clients, step_++);
  check(!once_ || step_ == 1, "a learner that was renewed for one step makes one step");
  for (std::size_t c = 0; c < rates.size(); ++c) record.rate_sum[c] += rates[c];
  return rates;
}

// Weights of the losses of batch `number` in the gradient.
at::Tensor LocalTraining::factors(std::int64_t clients, std::int64_t number) {
  const std::int64_t accumulate = input_.config.accumulate;
  if (accumulate > 1 || !factors_.defined() || factors_.size(0) != clients) {
    const std::vector<double> shares = input_.plan.shares(accumulate, clients, number - number % accumulate);
    factors_ = sent_to(store_->params().device(), torch::tensor(shares, at::kDouble).to(at::kFloat));
  }
  return factors_;
}

void LocalTraining::retain(std::span<const std::size_t> clients) {
  store_->retain(clients);
  optimizer_->retain(clients);
  for (std::size_t to = 0; to < clients.size(); ++to) {
    if (clients[to] == to) continue;
    input_.clients[to] = std::move(input_.clients[clients[to]]);
    if (clients[to] < batches_.size()) batches_[to] = std::move(batches_[clients[to]]);
  }
  input_.plan.retain(clients);
  input_.clients.resize(clients.size());
  batches_.erase(batches_.begin() + static_cast<std::ptrdiff_t>(input_.plan.batches.size()), batches_.end());
}

}  // namespace chorus::inline trainer
