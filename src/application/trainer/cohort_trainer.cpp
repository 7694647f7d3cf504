#include "application/trainer/cohort_trainer.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <numeric>

#include "application/trainer/client_batches.h"
#include "application/trainer/early_step.h"
#include "application/trainer/gpu_values.h"
#include "application/trainer/used_words.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/device/gpu_kernel.h"
#include "core/device/torch_runtime.h"
#include "core/tensor/bfloat16.h"
#include "core/tensor/flat_math.h"

namespace chorus {
namespace {

constexpr const char* kNotANumber = "the loss is not a number (try a lower learning rate, or clip the gradients)";
constexpr const char* kNoRows = "it has no rows to train on: its texts are empty after tokenization";
constexpr const char* kStatePrefix = "optimizer.";

at::Tensor as_tensor(const std::vector<double>& numbers, at::Device device) {
  return sent_to(device, torch::tensor(numbers, at::kDouble).to(at::kFloat));
}

std::vector<double> as_vector(const at::Tensor& numbers) {
  const at::Tensor here = numbers.to(at::kDouble).cpu().contiguous();
  return {here.data_ptr<double>(), here.data_ptr<double>() + here.numel()};
}

// The sum over batches of each client's losses, of which a batch has the first few. One copy from the GPU.
std::vector<double> sum_of(const std::vector<at::Tensor>& losses, std::size_t clients) {
  const std::vector<double> all = as_vector(torch::cat(losses));
  std::vector<double> sums(clients, 0.0);
  std::size_t at = 0;
  for (const at::Tensor& batch : losses) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(batch.size(0)); ++c) sums[c] += all[at++];
  }
  return sums;
}

// Clients whose texts encode to nothing have the least work, so they come last.
std::size_t with_rows(std::span<const TrainClient> clients) {
  const auto empty = [](const TrainClient& client) { return client.data.rows.empty(); };
  const auto first = std::find_if(clients.begin(), clients.end(), empty);
  check(std::all_of(first, clients.end(), empty), "clients without rows come last");
  return static_cast<std::size_t>(first - clients.begin());
}

// [from, C) of a start [P] or [C, P], as rows.
at::Tensor rows_from(const at::Tensor& start, std::size_t from, std::size_t clients) {
  const auto first = static_cast<std::int64_t>(from), count = static_cast<std::int64_t>(clients - from);
  return start.dim() == 1 ? start.unsqueeze(0).expand({count, -1}) : start.narrow(0, first, count);
}

at::Tensor first_rows(const at::Tensor& start, std::size_t count) {
  return start.dim() == 1 ? start : start.narrow(0, 0, static_cast<std::int64_t>(count));
}

at::Tensor joined(const at::Tensor& some, const at::Tensor& others) {
  return some.defined() ? torch::cat({some, others}) : others.clone();
}

// The clients from `from` on did not train: their values are what they were.
void add_untrained(TrainResult& result, std::span<const TrainClient> clients, std::size_t from, const at::Tensor& start,
                   bool updates) {
  const at::Tensor rest = rows_from(start, from, clients.size());
  result.values = joined(result.values, updates ? torch::zeros_like(rest) : rest);
  for (const TrainClient& client : clients.subspan(from)) {
    result.examples.push_back(client.examples);
    result.failures.emplace_back(kNoRows);
    if (updates) result.finite.push_back(true);
    for (auto* numbers : {&result.batches, &result.steps, &result.rate_sum, &result.normalizer, &result.loss}) {
      numbers->push_back(0);
    }
  }
}

}  // namespace

/// One cohort's values, gradients and batches while it trains.
class CohortTrainer::Session {
 public:
  Session(const CohortTrainer& trainer, std::span<const TrainClient> clients, const at::Tensor& start,
          const TrainMoment& moment, Keep keep, const GpuLanes* lanes = nullptr)
      : trainer_(trainer),
        lanes_(lanes),
        clients_(clients),
        moment_(moment),
        start_(start.to(trainer.input_.base.device())),
        batches_(batches_of(trainer.config_, clients, moment)),
        words_(keep == Keep::kUsedWords ? words_of(trainer.input_, batches_) : std::nullopt),
        recorder_(keep == Keep::kRecorded ? trainer.input_.recorders->lend(trainer.input_.base, count(), halves())
                                          : nullptr),
        params_(first_params()),
        at_start_(!words_ && !recorder_),
        used_(params_.values().size(1)) {
    if (halves() && at_start_) params_ = params_.with_halves();
  }

  const Params& params() const { return params_; }
  /// [C, P], whole. The session's own values, which go no further, where nothing was left out. The end of a session.
  at::Tensor values() {
    if (words_) return words_->spread(params_.values(), start_);
    if (!recorder_) return params_.values();
    const at::Tensor result = params_.values().clone();
    trainer_.input_.recorders->take_back(std::move(recorder_));
    return result;
  }
  /// The same less the start. The end of a session, too.
  Changes changes() {
    if (!GpuKernel::works_on(params_.values())) return changes_of(at_start_ ? values().clone() : values(), start_);
    Changes changes = gpu_changes(params_.values(), start_, words_ ? words_->places() : WordPlaces{});
    if (recorder_) trainer_.input_.recorders->take_back(std::move(recorder_));
    return changes;
  }
  /// Before the passes of a step of the first `count` clients, which may be made on the way back.
  void begin_step(std::int64_t count, Optimizer& optimizer, const EarlyStep::Input& input) {
    if (lanes_ != nullptr && !at_start_) early_.emplace(*lanes_, optimizer, active(count), input);
  }
  /// The step, or what is left of it. The first one of all reads the start and writes the cohort's own values, which
  /// saves a copy; it must be of all clients.
  void step(std::int64_t count, Optimizer& optimizer, const EarlyStep::Input& input, const at::Tensor& scale) {
    if (early_) {
      early_->finish(used_);
      early_.reset();
      return;
    }
    if (!at_start_) {
      const Params& now = active(count);
      optimizer.step(used(now.values()), used(now.grads()), input.rates, scale,
                     {.half = used(now.halves()), .last = input.last});
      return;
    }
    check(count == params_.clients(), "all clients make the first step");
    const Params own = params_.with_own_values();
    optimizer.step(own.values(), own.grads(), input.rates, scale,
                   {.before = params_.values(), .half = params_.halves(), .last = input.last});
    params_ = own;
    active_.reset();
    at_start_ = false;
  }
  /// gradients += mu (values - start)
  void add_proximal(std::int64_t count, double mu) {
    if (!begun_.defined()) begun_ = words_ ? words_->params(params_, start_, false).values() : start_;
    const Params& now = active(count);
    const at::Tensor begun = begun_.dim() == 1 ? begun_.unsqueeze(0) : begun_.narrow(0, 0, count);
    used(now.grads()).add_(used(now.values()), mu).sub_(used(begun), mu);
  }
  /// Of rows [A, P] the numbers that may have a gradient by now.
  at::Tensor used(const at::Tensor& rows) const { return rows.defined() ? rows.narrow(1, 0, used_) : rows; }
  /// The first `count` clients alone.
  Params& active(std::int64_t count) {
    if (!active_ || active_->clients() != count) active_.emplace(params_.first(count));
    return *active_;
  }

  /// Batch `number` of the first `count` clients, and its masks.
  struct Reading {
    std::int64_t count = 0, number = 0;
    TaskBatch batch;
    Dropout dropout;
  };
  Reading read(std::int64_t count, std::int64_t number) {
    std::vector<ClientRows> cohort;
    std::vector<std::uint64_t> seeds;
    for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c) {
      cohort.push_back({clients_[c].data.data.get(), batches_[c].at(number), clients_[c].id});
      const auto step = static_cast<std::uint64_t>(number);
      seeds.push_back(RandomStream({moment_.seed, "dropout", moment_.round, clients_[c].id, step}).fingerprint());
    }
    const TrainerInput& input = trainer_.input_;
    TaskBatch batch = input.task.collate(cohort, {.seed = moment_.seed,
                                                  .round = moment_.round,
                                                  .epoch = static_cast<std::uint64_t>(number),
                                                  .device = params_.device()});
    const Head head = input.model.head();
    if (head == Head::kCausalLm || head == Head::kMaskedLm) batch.batch.answers = batch.labels;
    if (words_) batch.batch.ids = words_->rename(batch.batch.ids);
    if (input.cache != nullptr) input.cache->fill(input.model, params_, batch.batch);
    Dropout dropout(std::move(seeds));
    dropout.send(params_.device());
    return {count, number, std::move(batch), std::move(dropout)};
  }
  /// Their losses [count], each the mean of `counted` answers.
  at::Tensor loss(const Params& params, const TaskBatch& batch, Dropout& dropout) const {
    return trainer_.input_.task.loss(trainer_.input_.model.forward(params, batch.batch, dropout), batch);
  }
  /// There and back over a batch: adds the gradients of the losses, times `factors` of each, to those there are, or
  /// writes them where the batch `begins` a step. Meanwhile `next` is read, if there is one, by a GPU's processor,
  /// which has nothing else to do.
  struct Passed {
    at::Tensor loss;
    std::optional<Reading> next = std::nullopt;
  };
  Passed pass(Reading reading, const at::Tensor& factors, bool begins,
              std::optional<std::pair<std::int64_t, std::int64_t>> next) {
    if (begins && words_) used_ = words_->numbers_until(reading.number + trainer_.config_.accumulate - 1);
    PassInput input{std::move(reading.batch), trainer_.config_.dropout ? std::move(reading.dropout) : Dropout(),
                    factors, begins};
    if (!recorder_) return there_and_back(active(reading.count), input, next);
    Passed result;
    result.loss = recorder_->run(input, [&](PassInput& in) {
      Params fresh = params_.first(reading.count);  // leaves belong to the stream that they were first used on
      return there_and_back(fresh, in, std::nullopt).loss;
    });
    if (next) result.next = read(next->first, next->second);  // the GPU is still at work
    return result;
  }

 private:
  Passed there_and_back(Params& params, PassInput& input, std::optional<std::pair<std::int64_t, std::int64_t>> next) {
    if (input.begins) params.begin_grads(used_, early_ ? early_->taker() : Params::Taker());
    Dropout dropout = input.dropout;
    const at::Tensor loss = this->loss(params, input.batch, dropout);
    std::future<Reading> ahead = read_beside(next);
    torch::autograd::backward({loss}, {input.factors});
    if (input.begins) params.end_grads();
    Passed result{loss.detach()};
    if (ahead.valid()) result.next = ahead.get();
    return result;
  }
  std::future<Reading> read_beside(std::optional<std::pair<std::int64_t, std::int64_t>> next) {
    if (!next || !params_.device().is_cuda()) return {};
    return std::async(std::launch::async, [this, next] {
      const TorchThreads one(1);
      const auto lane = lanes_ != nullptr ? lanes_->enter() : nullptr;
      return read(next->first, next->second);
    });
  }

  // In this machine's memory, or where fast kernels are not wanted.
  static Changes changes_of(const at::Tensor& values, const at::Tensor& start) {
    at::Tensor faulty = torch::zeros({values.size(0)}, at::kInt);
    for (std::int64_t c = 0; c < values.size(0); ++c) {
      at::Tensor mine = values[c];
      const at::Tensor from = start.dim() == 1 ? start : start[c];
      const bool plain = mine.is_cpu() && mine.is_contiguous() && from.is_contiguous();
      const bool finite = plain ? subtract_from(mine.data_ptr<float>(), from.data_ptr<float>(), mine.numel())
                                : at::isfinite(mine.sub_(from)).all().item<bool>();
      faulty.data_ptr<std::int32_t>()[c] = finite ? 0 : 1;
    }
    return {values, faulty};
  }

  std::int64_t count() const { return static_cast<std::int64_t>(clients_.size()); }
  bool halves() const { return trainer_.config_.precision == TrainerConfig::Precision::kBFloat16; }
  Params first_params() const {
    if (words_) return words_->params(trainer_.input_.base, start_, halves());
    if (!recorder_) return Params::cohort_at(trainer_.input_.base, count(), start_);
    Params result = recorder_->params().first(count());
    result.values().copy_(start_.dim() == 1 ? start_.unsqueeze(0) : start_);
    if (halves()) put_as_bfloat16(result.halves(), result.values());
    return result;
  }
  static std::vector<ClientBatches> batches_of(const TrainerConfig& config, std::span<const TrainClient> clients,
                                               const TrainMoment& moment) {
    std::vector<ClientBatches> result;
    for (const TrainClient& client : clients) {
      result.emplace_back(ClientBatchesInput{client.data, client.id, config.batch_size, moment.seed, moment.round});
    }
    return result;
  }
  static std::optional<UsedWords> words_of(const TrainerInput& input, std::span<ClientBatches> batches) {
    const Embedding* words = input.model.words();
    if (words == nullptr || !UsedWords::possible(input.model.layout(), *words)) return std::nullopt;
    return UsedWords(input.model.layout(), *words, batches, input.base.device());
  }

  const CohortTrainer& trainer_;
  const GpuLanes* lanes_;  // null: steps are made after the way back
  std::span<const TrainClient> clients_;
  TrainMoment moment_;
  at::Tensor start_;
  std::vector<ClientBatches> batches_;
  std::optional<UsedWords> words_;
  std::unique_ptr<StepRecorder> recorder_;
  Params params_;
  bool at_start_;      // the values are the start's own memory, not to be written
  at::Tensor begun_;   // the values at first, where a proximal term asks for them
  std::int64_t used_;  // of a client's numbers, the first that may have a gradient by now
  std::optional<Params> active_;
  std::optional<EarlyStep> early_;
};

CohortTrainer::CohortTrainer(const TrainerInput& input, const TrainerConfig& config)
    : input_(input),
      config_(config),
      elementwise_(config.weight_decay == 0 &&
                   config.optimizer.make(OptimizerInput{std::make_shared<Layout>()})->elementwise()) {}

std::int64_t CohortTrainer::steps(std::size_t rows) const {
  if (config_.steps) return *config_.steps;
  const std::int64_t batches = (static_cast<std::int64_t>(rows) + config_.batch_size - 1) / config_.batch_size;
  return (batches * config_.epochs + config_.accumulate - 1) / config_.accumulate;
}

CohortTrainer::Keep CohortTrainer::keep_of(const TrainWish& wish, std::int64_t clients) const {
  const std::int64_t numbers = clients * input_.model.layout().trainable_size();
  if (input_.recorders != nullptr && StepRecorders::worth_it(input_.base.device(), numbers)) {
    return Keep::kRecorded;
  }
  return elementwise_ && !wish.adjust && !wish.keep_optimizer ? Keep::kUsedWords : Keep::kAll;
}

bool CohortTrainer::steps_early(const TrainWish& wish, Keep keep) const {
  if (!GpuKernel::works_on(input_.base.values()) || keep == Keep::kRecorded) return false;
  if (config_.clip > 0 || config_.accumulate > 1 || wish.proximal != 0 || wish.adjust) return false;
  return config_.optimizer.make(OptimizerInput{std::make_shared<Layout>()})->in_parts(input_.base.values());
}

TrainResult CohortTrainer::train(std::span<const TrainClient> clients, const at::Tensor& start,
                                 const TrainMoment& moment, const TrainWish& wish,
                                 std::span<ClientState* const> states) const {
  const std::size_t trained = with_rows(clients);
  try {
    TrainResult result;
    if (trained > 0) {
      result = train_cohort(clients.first(trained), first_rows(start, trained), moment, wish,
                            states.empty() ? states : states.first(trained));
    }
    if (trained < clients.size()) add_untrained(result, clients, trained, start.to(input_.base.device()), wish.updates);
    return result;
  } catch (const std::exception& error) {
    // What other cohorts recorded is in the way.
    if (input_.recorders != nullptr && is_out_of_memory(error)) input_.recorders->forget();
    throw;
  }
}

TrainResult CohortTrainer::train_cohort(std::span<const TrainClient> clients, const at::Tensor& start,
                                        const TrainMoment& moment, const TrainWish& wish,
                                        std::span<ClientState* const> states) const {
  const std::size_t cohort = clients.size();
  const Keep keep = keep_of(wish, static_cast<std::int64_t>(cohort));
  std::optional<GpuLanes> lanes;
  if (steps_early(wish, keep)) lanes.emplace(input_.base.device());
  Session session(*this, clients, start, moment, keep, lanes ? &*lanes : nullptr);
  const Params& params = session.params();
  const auto optimizer = config_.optimizer.make(OptimizerInput{
      params.shared_layout(), params.clients(), params.device(), config_.weight_decay, config_.decay_matrices_only});
  std::vector<std::int64_t> batches, steps;
  for (std::size_t c = 0; c < cohort; ++c) {
    const std::size_t rows = clients[c].data.rows.size();
    steps.push_back(this->steps(rows));
    const auto an_epoch = (static_cast<std::int64_t>(rows) + config_.batch_size - 1) / config_.batch_size;
    batches.push_back(config_.steps ? *config_.steps * config_.accumulate : an_epoch * config_.epochs);
    check(c == 0 || batches[c] <= batches[c - 1], "clients come in the order of falling work");
    if (!wish.keep_optimizer) continue;
    std::map<std::string, at::Tensor> kept;
    for (const auto& [name, tensor] : *states[c]) {
      if (name.starts_with(kStatePrefix)) kept[name.substr(std::string(kStatePrefix).size())] = tensor;
    }
    optimizer->restore(static_cast<std::int64_t>(c), kept);
  }

  std::vector<at::Tensor> losses;  // of each batch, of those who read it
  at::Tensor factors;              // of the losses, in the gradient
  std::vector<double> rate_sum(cohort, 0.0);
  // How many clients have a batch `number`.
  const auto readers = [&](std::int64_t number) {
    return std::count_if(batches.begin(), batches.end(), [&](std::int64_t all) { return all > number; });
  };
  std::int64_t count = params.clients();
  std::optional<Session::Reading> reading;
  const auto begin_of_steps = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < steps.front(); ++step) {
    while (steps[static_cast<std::size_t>(count) - 1] <= step) --count;
    EarlyStep::Input how{.rates = {}, .last = step + 1 == steps.front() && !wish.keep_optimizer};
    for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c) {
      // The schedule counts rounds from 0, as it counts steps.
      const SchedulePoint point{step, steps[c], std::max<std::int64_t>(static_cast<std::int64_t>(moment.round), 1) - 1,
                                static_cast<std::int64_t>(moment.rounds)};
      how.rates.push_back(config_.learning_rate * schedule_factor(config_.schedule, point));
      rate_sum[c] += how.rates.back();
    }
    session.begin_step(count, *optimizer, how);
    const std::int64_t begin = step * config_.accumulate;
    for (std::int64_t number = begin; number < begin + config_.accumulate && readers(number) > 0; ++number) {
      if (!reading) reading = session.read(readers(number), number);
      const std::int64_t clients_here = reading->count;
      if (config_.accumulate > 1 || !factors.defined() || factors.size(0) != clients_here) {
        std::vector<double> share;
        for (std::int64_t c = 0; c < clients_here; ++c) {
          const std::int64_t group = std::min(config_.accumulate, batches[static_cast<std::size_t>(c)] - begin);
          share.push_back(1.0 / static_cast<double>(group));
        }
        factors = as_tensor(share, params.device());
      }
      const std::int64_t next = readers(number + 1);
      // The first batch of a step is read by all; those of fewer clients add to what is there.
      Session::Passed passed = session.pass(std::move(*reading), factors, number == begin,
                                            next > 0 ? std::optional(std::pair(next, number + 1)) : std::nullopt);
      reading = std::move(passed.next);
      losses.push_back(passed.loss);
    }
    const Params& active = session.active(count);
    if (wish.proximal != 0) session.add_proximal(count, wish.proximal);
    if (wish.adjust) wish.adjust(active.values(), active.grads());
    const at::Tensor scale = config_.clip > 0 ? clip_scales(session.used(active.grads()), config_.clip) : at::Tensor();
    session.step(count, *optimizer, how, scale);
  }

  TrainResult result;
  result.rate_sum = std::move(rate_sum);
  result.failures.resize(cohort);
  result.loss = sum_of(losses, cohort);  // waits for a GPU
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_of_steps).count();
  if (wish.updates) {
    const Changes changes = session.changes();
    result.values = changes.numbers;
    for (const double fault : as_vector(changes.faulty)) result.finite.push_back(fault == 0);
  } else {
    result.values = session.values();
  }
  if (lanes) lanes->hand_over(result.values);
  for (std::size_t c = 0; c < cohort; ++c) {
    result.loss[c] /= static_cast<double>(batches[c]);
    if (!std::isfinite(result.loss[c])) result.failures[c] = kNotANumber;
    result.examples.push_back(clients[c].examples);
    result.batches.push_back(static_cast<double>(batches[c]));
    result.steps.push_back(static_cast<double>(steps[c]));
    result.normalizer.push_back(optimizer->reach(static_cast<double>(steps[c])));
    if (!wish.keep_optimizer) continue;
    for (auto& [name, tensor] : optimizer->state(static_cast<std::int64_t>(c)))
      (*states[c])[kStatePrefix + name] = tensor;
  }
  return result;
}

GradientResult CohortTrainer::gradient(std::span<const TrainClient> clients, const at::Tensor& start,
                                       const TrainMoment& moment, bool want_gradients) const {
  const std::size_t trained = with_rows(clients);
  GradientResult result;
  if (trained > 0)
    result = gradient_of_rows(clients.first(trained), first_rows(start, trained), moment, want_gradients);
  if (want_gradients && trained < clients.size()) {
    const at::Tensor rest = rows_from(start.to(input_.base.device()), trained, clients.size());
    result.gradients = joined(result.gradients, torch::zeros_like(rest));
  }
  for (const TrainClient& client : clients.subspan(trained)) {
    result.examples.push_back(client.examples);
    result.loss.push_back(0);
    result.failures.emplace_back(kNoRows);
  }
  return result;
}

GradientResult CohortTrainer::gradient_of_rows(std::span<const TrainClient> clients, const at::Tensor& start,
                                               const TrainMoment& moment, bool want_gradients) const {
  Session session(*this, clients, start, moment, Keep::kAll);
  const Params& params = session.params();
  std::vector<std::int64_t> batches;
  for (const TrainClient& client : clients) {
    const auto rows = static_cast<std::int64_t>(client.data.rows.size());
    batches.push_back((rows + config_.batch_size - 1) / config_.batch_size);
  }
  const auto options = at::TensorOptions(params.device()).dtype(at::kDouble);
  at::Tensor loss_sum = torch::zeros({params.clients()}, options), answers = torch::zeros({params.clients()}, options);
  const at::AutoGradMode with_gradients(want_gradients);
  if (want_gradients) params.grads().zero_();
  std::int64_t count = params.clients();
  for (std::int64_t number = 0; number < batches.front(); ++number) {
    while (batches[static_cast<std::size_t>(count) - 1] <= number) --count;
    Session::Reading reading = session.read(count, number);
    Dropout off;
    const at::Tensor counted = reading.batch.counted;
    const at::Tensor total = session.loss(session.active(count), reading.batch, off) * counted;
    if (want_gradients) total.sum().backward();
    loss_sum.narrow(0, 0, count).add_(total.detach());
    answers.narrow(0, 0, count).add_(counted);
  }
  GradientResult result;
  const at::Tensor mean = loss_sum / answers.clamp_min(1);
  if (want_gradients) result.gradients = params.grads().div_(answers.clamp_min(1).unsqueeze(1));
  result.loss = as_vector(mean);
  for (std::size_t c = 0; c < clients.size(); ++c) {
    result.examples.push_back(clients[c].examples);
    result.failures.emplace_back(std::isfinite(result.loss[c]) ? "" : kNotANumber);
  }
  return result;
}

double CohortTrainer::client_bytes(double tokens) const {
  const auto numbers = static_cast<double>(input_.model.layout().trainable_size());
  // Values, gradients, two moments; a layer keeps about 20 vectors a token for the backward pass.
  const double width = static_cast<double>(std::max<std::int64_t>(
      {input_.model.config().integer("hidden_size", 0, 0), input_.model.config().integer("dim", 0, 0),
       input_.model.config().integer("d_model", 0, 0), input_.model.config().integer("n_embd", 0, 0)}));
  const bool writes = input_.model.head() == Head::kCausalLm || input_.model.head() == Head::kSeq2Seq;
  const double answers = writes ? 3.0 * static_cast<double>(input_.model.vocabulary()) : 0;
  return 4 * (4 * numbers + tokens * (20.0 * width * static_cast<double>(input_.model.layers()) + answers));
}

}  // namespace chorus
