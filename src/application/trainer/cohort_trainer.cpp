#include "application/trainer/cohort_trainer.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "application/trainer/batch_reader.h"
#include "application/trainer/client_batches.h"
#include "application/trainer/cohort_learner.h"
#include "application/trainer/local_training.h"
#include "application/trainer/losses.h"
#include "application/trainer/optimizer_state.h"
#include "application/trainer/private_training.h"
#include "core/base/error.h"
#include "core/base/stop_point.h"
#include "core/device/backend.h"
#include "core/device/gpu_streams.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline trainer {
namespace {

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

CohortTrainer::CohortTrainer(const TrainerInput& input, const TrainerConfig& config, const TrainerPieces& pieces)
    : input_(input),
      config_(config),
      pieces_(pieces),
      elementwise_(config.weight_decay == 0 &&
                   config.optimizer.make(OptimizerInput{std::make_shared<Layout>()})->elementwise()) {}

std::int64_t CohortTrainer::batches(std::size_t rows) const {
  if (config_.steps) return *config_.steps * config_.accumulate;
  return (static_cast<std::int64_t>(rows) + config_.batch_size - 1) / config_.batch_size * config_.epochs;
}

std::int64_t CohortTrainer::steps(std::size_t rows) const {
  return (batches(rows) + config_.accumulate - 1) / config_.accumulate;
}

bool CohortTrainer::records(std::int64_t clients, bool waits) const {
  return pieces_.recording && input_.recorders != nullptr &&
         StepRecorders::worth_it(input_.base.device(), clients * input_.model.layout().trainable_size(), waits);
}

CohortTrainer::Memory CohortTrainer::memory_for(const TrainWish& wish, std::int64_t clients) const {
  const bool teacher = wish.teacher.values.defined();
  if (records(clients, false) && !teacher) return Memory::kRecorded;
  // Procedures know the whole vector only, and so does a teacher.
  const bool whole = wish.adjust || wish.keep_optimizer || !wish.frozen.empty() || teacher;
  if (pieces_.used_words && elementwise_ && !whole) return Memory::kUsedWords;
  return pieces_.borrowed_start ? Memory::kBorrowedStart : Memory::kOwn;
}

std::unique_ptr<ValueStore> CohortTrainer::make_store(Memory memory, std::int64_t clients, const at::Tensor& start,
                                                      std::span<ClientBatches> batches) const {
  const ValueStore::Input input{input_.base, clients, start.to(input_.base.device()),
                                config_.precision == TrainerConfig::Precision::kBFloat16};
  if (memory == Memory::kRecorded) return recorded_store(input, *input_.recorders);
  if (memory == Memory::kUsedWords) {
    if (auto store = used_words_store(input, input_.model, batches)) return store;
    memory = pieces_.borrowed_start ? Memory::kBorrowedStart : Memory::kOwn;
  }
  return memory == Memory::kBorrowedStart ? borrowed_start_store(input) : std::make_unique<ValueStore>(input);
}

bool CohortTrainer::steps_early(const TrainWish& wish, Memory memory) const {
  if (!pieces_.early_steps || !uses_gpu_kernels(input_.base.values()) || memory == Memory::kRecorded) return false;
  if (config_.clip > 0 || config_.accumulate > 1) return false;
  if (wish.proximal != 0 || wish.adjust || !wish.frozen.empty()) return false;
  return config_.optimizer.make(OptimizerInput{std::make_shared<Layout>()})->in_parts(input_.base.values());
}

TrainResult CohortTrainer::train(std::span<const TrainClient> clients, const at::Tensor& start,
                                 const TrainMoment& moment, const TrainWish& wish,
                                 std::span<ClientState* const> states) const {
  const std::size_t trained = with_rows(clients);
  try {
    TrainResult result;
    if (trained > 0) {
      result = train_rows(clients.first(trained), first_rows(start, trained), moment, wish,
                          wish.keep_optimizer ? states.first(trained) : std::span<ClientState* const>());
    }
    if (trained < clients.size()) add_untrained(result, clients, trained, start.to(input_.base.device()), wish.updates);
    return result;
  } catch (const std::exception& error) {
    // What other cohorts recorded is in the way.
    if (input_.recorders != nullptr && is_out_of_memory(error)) input_.recorders->forget();
    throw;
  }
}

TrainResult CohortTrainer::train_rows(std::span<const TrainClient> clients, const at::Tensor& start,
                                      const TrainMoment& moment, const TrainWish& wish,
                                      std::span<ClientState* const> states) const {
  if (config_.privacy) return private_rows(clients, start, moment, wish, states);
  const auto cohort = static_cast<std::int64_t>(clients.size());
  const Memory memory = memory_for(wish, cohort);
  std::optional<GpuStreams> streams;
  if (steps_early(wish, memory)) streams.emplace(input_.base.device());
  LocalTrainingInput input{input_, config_, {clients.begin(), clients.end()}, moment, wish};
  for (const TrainClient& client : clients) {
    input.plan.batches.push_back(batches(client.data.rows.size()));
    input.plan.schedule.push_back(steps(client.data.rows.size()));
  }
  input.read_ahead = pieces_.read_ahead;
  std::vector<ClientBatches> order = batches_of(clients, config_.batch_size, moment);
  std::unique_ptr<ValueStore> store = make_store(memory, cohort, start, order);
  LocalTraining training(std::move(input), std::move(order), std::move(store));
  restore_optimizer(training.optimizer(), states);

  const auto begin = std::chrono::steady_clock::now();
  LocalTraining::Record record =
      training.train(training.input().plan.schedule.front(), {streams ? &*streams : nullptr, !wish.keep_optimizer});
  TrainResult result;
  result.loss = mean_losses(record.losses, clients.size());  // waits for a GPU
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.rate_sum = std::move(record.rate_sum);
  if (wish.updates) {
    const Changes changes = training.store().take_changes();
    result.values = changes.numbers;
    for (const double fault : as_doubles(changes.faulty)) result.finite.push_back(fault == 0);
  } else {
    result.values = training.store().take_values();
  }
  if (streams) streams->hand_over(result.values);
  for (std::size_t c = 0; c < clients.size(); ++c) {
    const auto made = static_cast<double>(training.input().plan.schedule[c]);
    result.failures.emplace_back(std::isfinite(result.loss[c]) ? "" : kNotANumber);
    result.examples.push_back(clients[c].examples);
    result.batches.push_back(static_cast<double>(training.input().plan.batches[c]));
    result.steps.push_back(made);
    result.normalizer.push_back(training.optimizer().reach(made));
  }
  store_optimizer(training.optimizer(), states);
  return result;
}

TrainResult CohortTrainer::private_rows(std::span<const TrainClient> clients, const at::Tensor& start,
                                        const TrainMoment& moment, const TrainWish& wish,
                                        std::span<ClientState* const> states) const {
  if (input_.guard == nullptr) throw ConfigError("trainer.privacy: nobody keeps a budget for these clients");
  std::size_t longest = 1;
  for (const TrainClient& client : clients) {
    for (const std::uint32_t row : client.data.rows) longest = std::max(longest, client.data.data->length(row));
  }
  TrainerInput input = input_;
  if (!pieces_.recording) input.recorders = nullptr;
  return train_privately({input, config_, *input_.guard, moment, wish, client_bytes(static_cast<double>(longest))},
                         clients, start, states);
}

void CohortTrainer::refuse_private(const char* what) const {
  if (!config_.privacy) return;
  throw ConfigError(fmt::format(
      "trainer.privacy protects training as a whole, and this algorithm or selection asks clients for {}, which would "
      "be released without noise; use fedavg, fedprox or fedopt with selection: uniform",
      what));
}

std::unique_ptr<Learner> CohortTrainer::learner(std::span<const TrainClient> clients, const at::Tensor& start,
                                                const TrainMoment& moment, const LearnerWish& wish,
                                                std::shared_ptr<const PublicTexts> public_set) const {
  refuse_private("single steps");
  check(!wish.train.keep_optimizer && !wish.train.updates, "a learner keeps its optimizer and has values, not updates");
  const auto cohort = static_cast<std::int64_t>(clients.size());
  LocalTrainingInput input{input_, config_, {clients.begin(), clients.end()}, moment, wish.train};
  input.config.learning_rate *= wish.rate;
  input.plan.batches.assign(with_rows(clients), std::numeric_limits<std::int64_t>::max());
  for (const TrainClient& client : clients) {
    input.plan.schedule.push_back(wish.steps.value_or(std::max<std::int64_t>(steps(client.data.rows.size()), 1)));
  }
  input.read_ahead = pieces_.read_ahead;
  std::vector<ClientBatches> order = batches_of(clients, config_.batch_size, moment);
  const Memory memory = records(cohort, true) ? Memory::kRecorded : Memory::kOwn;
  std::unique_ptr<ValueStore> store = make_store(memory, cohort, start, order);
  return std::make_unique<CohortLearner>(
      std::make_unique<LocalTraining>(std::move(input), std::move(order), std::move(store)), std::move(public_set),
      steps_early(wish.train, memory));
}

GradientResult CohortTrainer::gradient(std::span<const TrainClient> clients, const at::Tensor& start,
                                       const TrainMoment& moment, bool want_gradients) const {
  refuse_private(want_gradients ? "a gradient" : "their loss");
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
  const auto cohort = static_cast<std::int64_t>(clients.size());
  std::vector<ClientBatches> order = batches_of(clients, config_.batch_size, moment);
  const auto store = make_store(pieces_.borrowed_start ? Memory::kBorrowedStart : Memory::kOwn, cohort, start, order);
  BatchReader reader({input_, clients, moment}, order, *store);
  const Params& params = store->params();
  const auto options = at::TensorOptions(params.device()).dtype(at::kDouble);
  at::Tensor loss_sum = torch::zeros({cohort}, options), answers = torch::zeros({cohort}, options);
  const at::AutoGradMode with_gradients(want_gradients);
  if (want_gradients) params.grads().zero_();
  std::int64_t count = cohort;
  for (std::int64_t number = 0; number < order.front().count(); ++number) {
    stop_point();
    while (order[static_cast<std::size_t>(count) - 1].count() <= number) --count;
    const Reading reading = reader.take(count, number);
    Dropout off;
    const Output output = input_.model.forward(store->active(count), reading.batch.batch, off);
    const at::Tensor& counted = reading.batch.counted;
    const at::Tensor total = input_.task.loss(output, reading.batch) * counted;
    if (want_gradients) total.sum().backward();
    loss_sum.narrow(0, 0, count).add_(total.detach());
    answers.narrow(0, 0, count).add_(counted);
  }
  GradientResult result;
  const at::Tensor mean = loss_sum / answers.clamp_min(1);
  if (want_gradients) result.gradients = params.grads().div_(answers.clamp_min(1).unsqueeze(1));
  result.loss = as_doubles(mean);
  for (std::size_t c = 0; c < clients.size(); ++c) {
    result.examples.push_back(clients[c].examples);
    result.failures.emplace_back(std::isfinite(result.loss[c]) ? "" : kNotANumber);
  }
  return result;
}

double CohortTrainer::client_bytes(double tokens) const {
  const auto numbers = static_cast<double>(input_.model.layout().trainable_size());
  // Values, gradients, two moments; a layer keeps about 20 vectors a token for the backward pass.
  const auto width = static_cast<double>(input_.model.width());
  const double answers = input_.model.head()->generates ? 3.0 * static_cast<double>(input_.model.vocabulary()) : 0;
  return 4 * (4 * numbers + tokens * (20.0 * width * static_cast<double>(input_.model.layers()) + answers));
}

}  // namespace chorus::inline trainer
