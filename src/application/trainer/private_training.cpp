#include "application/trainer/private_training.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "application/trainer/example_sum.h"
#include "application/trainer/frozen_ranges.h"
#include "application/trainer/optimizer_state.h"
#include "application/trainer/training_plan.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/base/stop_point.h"
#include "core/device/worker_threads.h"
#include "core/tensor/bfloat16.h"

namespace chorus::inline trainer {
namespace {

constexpr double kGpuBytes = 16.0 * (1 << 30), kCpuBytes = 1 << 30;
constexpr std::int64_t kSizes = 8;  // of recorded passes

// Noise does not depend on data: beside a GPU it is drawn during the passes of the step that will need it.
class NoiseAhead {
 public:
  NoiseAhead(const ExampleGuard& guard, std::int64_t size, at::Device device)
      : guard_(guard), size_(size), beside_(device.is_cuda()) {
    begin();
  }
  at::Tensor take(bool more) {
    const at::Tensor noise = next_;
    if (beside_) {
      for (Beside<void>& part : parts_) part.get();
    } else {
      at::parallel_for(0, size_, kLeastDraws, [&](std::int64_t from, std::int64_t to) { draw(noise, from, to); });
    }
    if (more) begin();
    return noise;
  }

 private:
  static constexpr std::int64_t kLeastDraws = 1 << 15;

  void draw(const at::Tensor& noise, std::int64_t from, std::int64_t to) const {
    guard_.draw(std::span(noise.data_ptr<std::int64_t>() + from, static_cast<std::size_t>(to - from)));
  }

  void begin() {
    parts_.clear();
    next_ = torch::empty({size_}, at::TensorOptions(at::kLong).pinned_memory(beside_));
    if (!beside_) return;
    const std::int64_t threads = std::max<std::int64_t>(1, std::int64_t{std::thread::hardware_concurrency()} - 2);
    const std::int64_t share = std::max(kLeastDraws, (size_ + threads - 1) / threads);
    for (std::int64_t from = 0; from < size_; from += share) {
      parts_.push_back(
          beside([this, noise = next_, from, share] { draw(noise, from, std::min(from + share, size_)); }));
    }
  }

  const ExampleGuard& guard_;
  std::int64_t size_;
  bool beside_;
  at::Tensor next_;
  std::vector<Beside<void>> parts_;  // of next_
};

/// One client.
class PrivateClient {
 public:
  PrivateClient(const PrivateTrainingInput& input, const TrainClient& client, const at::Tensor& start,
                std::vector<ExampleRows> examples)
      : input_(input),
        client_(client),
        examples_(std::move(examples)),
        work_(private_work(input.config, client.id, examples_.size())),
        batch_(work_.sampling_rate * static_cast<double>(examples_.size())),
        start_(start),
        params_(Params::copies_of_start(input.trainer.base, 1, true, start)),
        optimizer_(
            input.config.optimizer.make(OptimizerInput{params_.shared_layout(), 1, params_.device(),
                                                       input.config.weight_decay, input.config.decay_matrices_only})),
        sum_(params_.values().size(1), params_.device(), {input.config.privacy->clip, input.guard.noise()}) {
    plan_.batches = {work_.steps};
    plan_.schedule = {work_.steps};
  }

  Optimizer& optimizer() { return *optimizer_; }
  const ExampleWork& work() const { return work_; }
  double rate_sum() const { return rate_sum_; }
  const at::Tensor& values() const { return params_.values(); }

  void train() {
    const std::int64_t most = together();
    ExampleGradients pass(input_.trainer, input_.config, params_.values()[0], most);
    NoiseAhead noise(input_.guard, params_.values().size(1), params_.device());
    std::uint64_t number = 0;
    for (std::int64_t step = 0; step < work_.steps; ++step) {
      const std::vector<ExampleRows> sample = draw();
      for (std::size_t begin = 0; begin < sample.size(); begin += static_cast<std::size_t>(most)) {
        stop_point();
        const std::size_t count = std::min(static_cast<std::size_t>(most), sample.size() - begin);
        const at::Tensor gradients =
            pass.run({client_, std::span(sample).subspan(begin, count), input_.moment, number++});
        for (const FlatRange& range : input_.wish.frozen) {
          gradients.narrow(1, range.begin, range.end - range.begin).zero_();
        }
        sum_.add(gradients);
      }
      params_.grads()[0].copy_(sum_.release(noise.take(step + 1 < work_.steps)).div_(batch_));
      make_step(step);
    }
  }

 private:
  std::int64_t together() const {
    const double expected = batch_ + 4 * std::sqrt(batch_) + 1;
    const std::int64_t given = input_.config.privacy->together;
    const double bytes = params_.device().is_cuda() ? kGpuBytes : kCpuBytes;
    const double fit = given > 0 ? static_cast<double>(given) : std::floor(bytes / std::max(input_.example_bytes, 1.0));
    return static_cast<std::int64_t>(std::clamp(std::min(fit, expected), 1.0, 4096.0));
  }

  // Long examples first, so that those of a pass are about equally long.
  std::vector<ExampleRows> draw() const {
    std::vector<ExampleRows> sample;
    for (const std::uint32_t i : input_.guard.sample(examples_.size(), work_.sampling_rate)) {
      sample.push_back(examples_[i]);
    }
    const auto tokens = [&](const ExampleRows& example) {
      std::size_t count = 0;
      for (std::size_t i = 0; i < example.count; ++i) {
        count += client_.data.data->length(client_.data.rows[example.begin + i]);
      }
      return count;
    };
    std::stable_sort(sample.begin(), sample.end(),
                     [&](const ExampleRows& a, const ExampleRows& b) { return tokens(a) > tokens(b); });
    return sample;
  }

  void make_step(std::int64_t step) {
    const at::NoGradGuard no_grad;
    const at::Tensor values = params_.values(), gradients = params_.grads();
    const TrainWish& wish = input_.wish;
    if (wish.proximal != 0) gradients.add_(values - start_.reshape({1, -1}), wish.proximal);
    if (wish.adjust) wish.adjust(values, gradients);
    const FrozenRanges frozen(wish.frozen, params_);
    const std::vector<double> rates = plan_.rates(input_.config, input_.moment, 1, step);
    rate_sum_ += rates[0];
    optimizer_->step(values, gradients, rates);
    frozen.restore(params_);
  }

  const PrivateTrainingInput& input_;
  const TrainClient& client_;
  std::vector<ExampleRows> examples_;
  ExampleWork work_;
  double batch_;  // expected examples of a sample
  at::Tensor start_;
  Params params_;
  std::unique_ptr<Optimizer> optimizer_;
  ExampleSum sum_;
  TrainingPlan plan_;
  double rate_sum_ = 0;
};

}  // namespace

std::vector<ExampleRows> examples_of(const ClientData& data) {
  std::vector<ExampleRows> result;
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    const bool same = i > 0 && data.data->example_of(data.rows[i]) == data.data->example_of(data.rows[i - 1]);
    if (same) {
      ++result.back().count;
    } else {
      result.push_back({i, 1});
    }
  }
  return result;
}

ExampleWork private_work(const TrainerConfig& config, ClientId client, std::size_t examples) {
  const auto all = static_cast<double>(std::max<std::size_t>(examples, 1));
  const double batch = std::min(static_cast<double>(config.batch_size * config.accumulate), all);
  ExampleWork work{.client = client, .sampling_rate = batch / all, .steps = 1};
  work.steps = config.steps
                   ? *config.steps
                   : static_cast<std::int64_t>(std::ceil(static_cast<double>(config.epochs) * all / batch - 1e-9));
  return work;
}

ExampleGradients::ExampleGradients(const TrainerInput& trainer, const TrainerConfig& config, const at::Tensor& values,
                                   std::int64_t most)
    : trainer_(trainer),
      dropout_(config.dropout),
      bfloat16_(config.precision == TrainerConfig::Precision::kBFloat16),
      most_(most),
      values_(values),
      recorder_(trainer.recorders != nullptr && StepRecorders::worth_it(values.device(), most * values.numel())
                    ? trainer.recorders->lend(trainer.base, most, {.shadow = bfloat16_, .examples = true})
                    : nullptr),
      params_(recorder_ ? recorder_->params() : Params::views_of_start(trainer.base, most, values, true)) {
  if (bfloat16_ && !recorder_) params_ = params_.with_unset_shadow();
}

ExampleGradients::~ExampleGradients() {
  if (recorder_ && std::uncaught_exceptions() == 0) trainer_.recorders->take_back(std::move(recorder_));
}

// Recordings are made by shape, so there should be few.
std::int64_t ExampleGradients::rows_for(std::int64_t examples) const {
  if (!recorder_) return examples;
  const std::int64_t step = std::max<std::int64_t>(1, most_ / kSizes);
  return std::min((examples + step - 1) / step * step, most_);
}

at::Tensor ExampleGradients::run(const Pass& pass) {
  const auto count = static_cast<std::int64_t>(pass.examples.size());
  check(count >= 1 && count <= most_, "a pass has as many examples as it was made for");
  const at::Device device = params_.device();
  const std::int64_t rows = rows_for(count);
  std::vector<ClientRows> cohort;
  std::vector<std::uint64_t> seeds;
  for (std::int64_t i = 0; i < rows; ++i) {
    const ExampleRows& example = pass.examples[static_cast<std::size_t>(std::min(i, count - 1))];
    cohort.push_back({pass.client.data.data.get(),
                      std::span(pass.client.data.rows).subspan(example.begin, example.count), pass.client.id});
    const std::uint64_t place = (pass.number << 20) + static_cast<std::uint64_t>(i);
    if (dropout_) {
      seeds.push_back(
          RandomStream({pass.moment.seed, "example-dropout", pass.moment.round, pass.client.id, place}).fingerprint());
    }
  }
  PassInput input{
      .batch = trainer_.task.collate(
          cohort, {.seed = pass.moment.seed, .round = pass.moment.round, .epoch = pass.number, .device = device}),
      .dropout = Dropout(std::move(seeds)),
      .factors = torch::ones({rows}, at::TensorOptions(device))};
  if (trainer_.model.head()->fuses_loss) input.batch.batch.answers = input.batch.labels;
  if (trainer_.cache != nullptr) trainer_.cache->fill(trainer_.model, params_, input.batch.batch);
  input.dropout.send(device);
  if (recorder_) params_.values()[0].copy_(values_);
  const auto backward = [&](PassInput& in) {
    Params params = params_.first(rows);  // autograd ties leaves to the stream of their first use
    if (bfloat16_) put_as_bfloat16(params.shadow().values(), params.values());
    params.writes().begin();
    Dropout dropout = in.dropout;
    const at::Tensor loss = trainer_.task.loss(trainer_.model.forward(params, in.batch.batch, dropout), in.batch);
    torch::autograd::backward({loss}, {in.factors});
    params.writes().end();
    return loss.detach();
  };
  if (recorder_) {
    recorder_->run(input, backward);
  } else {
    backward(input);
  }
  return params_.grads().narrow(0, 0, count);
}

TrainResult train_privately(const PrivateTrainingInput& input, std::span<const TrainClient> clients,
                            const at::Tensor& start, std::span<ClientState* const> states) {
  const auto begin = std::chrono::steady_clock::now();
  const at::Tensor there = start.to(input.trainer.base.device());
  std::vector<std::vector<ExampleRows>> examples;
  std::vector<ExampleWork> work;
  for (const TrainClient& client : clients) {
    examples.push_back(examples_of(client.data));
    work.push_back(private_work(input.config, client.id, examples.back().size()));
  }
  const std::vector<std::string> refusals = input.guard.charge(work, input.moment.round);
  TrainResult result;
  std::vector<at::Tensor> values;
  for (std::size_t c = 0; c < clients.size(); ++c) {
    const at::Tensor from = there.dim() == 1 ? there : there[static_cast<std::int64_t>(c)];
    result.examples.push_back(clients[c].examples);
    result.loss.push_back(std::numeric_limits<double>::quiet_NaN());
    std::string failure = refusals[c];
    double steps = 0, rates = 0, reach = 0;
    at::Tensor mine = from;
    if (failure.empty()) {
      PrivateClient client(input, clients[c], from, std::move(examples[c]));
      if (!states.empty()) restore_optimizer(client.optimizer(), states.subspan(c, 1));
      client.train();
      if (!states.empty()) store_optimizer(client.optimizer(), states.subspan(c, 1));
      mine = client.values()[0];
      steps = static_cast<double>(client.work().steps);
      rates = client.rate_sum();
      reach = client.optimizer().reach(steps);
    }
    result.batches.push_back(steps);
    result.steps.push_back(steps);
    result.rate_sum.push_back(rates);
    result.normalizer.push_back(reach);
    result.failures.push_back(std::move(failure));
    if (input.wish.updates) {
      mine = mine - from;
      result.finite.push_back(at::isfinite(mine).all().item<bool>());
    }
    values.push_back(mine);
  }
  result.values = torch::stack(values);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace chorus::inline trainer
