#include "application/tasks/evaluate.h"

#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/base/stop_point.h"
#include "core/console/log.h"
#include "core/device/host_copy.h"
#include "core/device/torch_runtime.h"
#include "core/device/worker_threads.h"

namespace chorus::inline tasks {
namespace {

// On a CPU, a batch's activations should stay in the cache, and there should be batches for all cores; a GPU needs
// large batches.
constexpr std::int64_t kCpuTokens = 4096, kGpuTokens = 65536, kFewestTokens = 1024;
// Logits over a vocabulary take 4 bytes x tokens x vocabulary: 256 MiB, 2 GiB on a GPU.
constexpr std::int64_t kCpuLogits = std::int64_t{1} << 26, kGpuLogits = std::int64_t{1} << 29;

bool over_vocabulary(Head head) { return head->generates || head == Head::kMaskedLm; }

std::int64_t token_budget(const Task& task, const Model& model, bool gpu, std::int64_t wanted) {
  const std::int64_t budget = wanted > 0 ? wanted : gpu ? kGpuTokens : kCpuTokens;
  if (!over_vocabulary(task.head())) return budget;
  const std::int64_t logits = (gpu ? kGpuLogits : kCpuLogits) / std::max<std::int64_t>(model.vocabulary(), 1);
  // A masked LM predicts only a few of its tokens.
  return std::min(budget, std::max<std::int64_t>(task.head() == Head::kMaskedLm ? 4 * logits : logits, 1));
}

struct Item {
  std::size_t index;  // among the given examples
  std::uint32_t begin, end;
  std::int64_t longest = 0;
};

std::vector<Item> items_of(const EncodedDataset& encoded, std::span<const std::uint32_t> examples) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto [begin, end] = encoded.rows_of(examples[i]);
    Item item{i, begin, end};
    for (std::uint32_t row = begin; row < end; ++row) {
      item.longest = std::max(item.longest, static_cast<std::int64_t>(encoded.length(row)));
    }
    if (begin < end) items.push_back(item);
  }
  // Ties by example: batches, and so rounding, do not depend on the given order.
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.longest != b.longest ? a.longest > b.longest : a.begin < b.begin;
  });
  return items;
}

/// One client's examples and their predictions.
class ClientAnswers {
 public:
  ClientAnswers(const Task& task, const EvaluationSet& set, std::int64_t budget)
      : set_(set), rearranged_(task.client_data(set.encoded, set.examples)) {
    examples_ = rearranged_.data == set.encoded ? set.examples : rearranged_.data->examples();
    items_ = items_of(*rearranged_.data, examples_);
    answers_.resize(examples_.size());
    answered_.resize(examples_.size(), 0);
    for (std::size_t first = 0; first < items_.size();) {
      std::size_t behind = first;
      for (std::int64_t rows = 0; behind < items_.size(); ++behind) {
        rows += items_[behind].end - items_[behind].begin;
        if (behind > first && rows * items_[first].longest > budget) break;
      }
      batches_.emplace_back(first, behind);
      first = behind;
    }
  }

  std::size_t batches() const { return batches_.size(); }
  const Dataset& data() const { return set_.data; }
  const EncodedDataset& encoded() const { return *rearranged_.data; }
  std::vector<std::uint32_t> rows(std::size_t batch) const {
    std::vector<std::uint32_t> rows;
    for (std::size_t i = batches_[batch].first; i < batches_[batch].second; ++i) {
      for (std::uint32_t row = items_[i].begin; row < items_[i].end; ++row) rows.push_back(row);
    }
    return rows;
  }
  /// Different threads may answer different batches.
  void answer(std::size_t batch, std::vector<Prediction> decoded) {
    const auto [first, behind] = batches_[batch];
    check(decoded.size() == behind - first, "one answer per example");
    for (std::size_t i = first; i < behind; ++i) {
      answers_[items_[i].index] = std::move(decoded[i - first]);
      answered_[items_[i].index] = 1;
    }
  }
  void count(double loss, double answers) {
    loss_ += loss;
    counted_ += answers;
  }
  Evaluation result(const Task& task, const EvaluateOptions& options) {
    Evaluation result{.metric = task.metric(options.keep), .scores = {}, .predictions = {}};
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      answers_[i].example = examples_[i];
      if (answered_[i] != 0) task.score(answers_[i], set_.data, *result.metric);
    }
    result.scores = result.metric->scores();
    result.scores["eval_loss"] = counted_ > 0 ? loss_ / counted_ : std::numeric_limits<double>::quiet_NaN();
    if (options.predictions) result.predictions = std::move(answers_);
    return result;
  }

 private:
  EvaluationSet set_;
  ClientData rearranged_;
  std::span<const std::uint32_t> examples_;
  std::vector<Item> items_;
  std::vector<std::pair<std::size_t, std::size_t>> batches_;  // ranges of items
  std::vector<Prediction> answers_;
  std::vector<std::uint8_t> answered_;  // bytes, because threads write neighbouring elements
  double loss_ = 0, counted_ = 0;
};

/// The batches of one evaluation. Clients are in descending order of their number of batches, so that those with
/// batches left are the first of the cohort.
class Evaluator {
 public:
  Evaluator(const Task& task, const Model& model, const Params& params, std::vector<ClientAnswers*> clients,
            const EvaluateOptions& options)
      : task_(task), model_(model), params_(params), clients_(std::move(clients)), options_(options) {
    sums_.resize(clients_.front()->batches());
  }

  void run() {
    params_.device().is_cuda() ? run_on_gpu() : run_on_cpu();
    add_losses();
  }

 private:
  struct Running {
    std::size_t number = 0;
    TaskBatch batch;
    Output output;  // over a vocabulary: too large to copy
    HostCopy logits;
  };

  std::size_t readers(std::size_t number) const {
    return static_cast<std::size_t>(std::count_if(
        clients_.begin(), clients_.end(), [&](const ClientAnswers* client) { return client->batches() > number; }));
  }
  CollateOptions collating(at::Device device) const { return {.seed = options_.seed, .device = device}; }

  TaskBatch collate(std::size_t number) const {
    std::vector<std::vector<std::uint32_t>> rows(readers(number));
    std::vector<ClientRows> cohort;
    for (std::size_t c = 0; c < rows.size(); ++c) {
      rows[c] = clients_[c]->rows(number);
      cohort.push_back({&clients_[c]->encoded(), rows[c]});
    }
    return task_.collate(cohort, collating(params_.device()));
  }

  Running start(std::size_t number, TaskBatch batch) {
    const auto clients = static_cast<std::int64_t>(batch.rows.size());
    const Params params = clients == params_.clients() ? params_ : params_.first(clients);
    if (options_.cache != nullptr) options_.cache->fill(model_, params, batch.batch);
    Dropout off;
    Output output = model_.steady_answer(params, batch.batch, off);
    const at::Tensor counted = batch.counted.to(at::kDouble);
    const at::Tensor sum = (task_.loss(output, batch).to(at::kDouble) * counted).masked_fill(counted.eq(0), 0);
    sums_[number] = torch::stack({sum, counted});
    Running running{number, std::move(batch), {}, {}};
    if (over_vocabulary(task_.head())) {
      running.output = std::move(output);
    } else {
      running.logits = HostCopy(output.logits);
    }
    return running;
  }

  void finish(Running running) {
    if (!over_vocabulary(task_.head())) running.output.logits = running.logits.wait();
    const TaskBatch& all = running.batch;
    if (all.rows.size() == 1) {
      const Params params = params_.clients() == 1 ? params_ : params_.client(0);
      clients_[0]->answer(running.number, task_.predict(model_, params, running.output, all, clients_[0]->data()));
      return;
    }
    for (std::size_t c = 0; c < all.rows.size(); ++c) {
      const auto client = static_cast<std::int64_t>(c);
      const std::vector<ClientRows> alone{{all.data[c], all.rows[c]}};
      const TaskBatch batch = task_.collate(alone, collating(running.output.logits.device()));
      const Packing& packing = *batch.batch.packing;
      const std::int64_t count = task_.head()->per_sequence ? packing.sequences()
                                 : batch.labels.defined()   ? batch.labels.size(1)
                                                            : packing.tokens();
      const Output output{running.output.logits.narrow(0, client, 1).narrow(1, 0, count), {}};
      clients_[c]->answer(running.number,
                          task_.predict(model_, params_.client(client), output, batch, clients_[c]->data()));
    }
  }

  void run_on_cpu() {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    std::exception_ptr error;
    const auto work = [&] {
      try {
        const TorchThreads one(1);
        const at::NoGradGuard no_grad;
        for (std::size_t number = next++; number < sums_.size(); number = next++) {
          stop_point();
          finish(start(number, collate(number)));
        }
      } catch (...) {
        next = sums_.size();
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    };
    const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
    const std::size_t wanted = options_.workers > 0 ? static_cast<std::size_t>(options_.workers) : cores;
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < std::min(wanted, sums_.size()); ++i) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    if (error) std::rethrow_exception(error);
  }

  void run_on_gpu() {
    const TorchThreads one(1);
    const at::NoGradGuard no_grad;
    const auto collate_beside = [this](std::size_t number) {
      return beside([this, number] { return collate(number); });
    };
    Beside<TaskBatch> ahead = collate_beside(0);
    std::optional<Running> before;
    for (std::size_t number = 0; number < sums_.size(); ++number) {
      stop_point();
      TaskBatch batch = ahead.get();
      if (number + 1 < sums_.size()) ahead = collate_beside(number + 1);
      Running running = start(number, std::move(batch));
      if (before) finish(std::move(*before));
      before = std::move(running);
    }
    finish(std::move(*before));
  }

  void add_losses() {
    const at::Tensor all = torch::cat(sums_, 1).cpu().contiguous();  // [2, clients of each batch]
    const double* sum = all.data_ptr<double>();
    const double* counted = sum + all.size(1);
    for (std::size_t number = 0; number < sums_.size(); ++number) {
      const std::int64_t clients = sums_[number].size(1);
      for (std::int64_t c = 0; c < clients; ++c) clients_[static_cast<std::size_t>(c)]->count(*sum++, *counted++);
    }
  }

  const Task& task_;
  const Model& model_;
  const Params& params_;
  std::vector<ClientAnswers*> clients_;
  const EvaluateOptions& options_;
  std::vector<at::Tensor> sums_;  // per batch: summed losses and their counts, [2, clients]
};

// The clients `order` of a cohort as a new cohort.
Params rearranged(const Params& params, const std::vector<std::int64_t>& order) {
  const at::Tensor rows = torch::tensor(order, at::kLong).to(params.device());
  const Params cohort = Params::copies_of_start(params, static_cast<std::int64_t>(order.size()), false,
                                                params.values().index_select(0, rows));
  return params.shadow().exists() ? cohort.with_shadow() : cohort;
}

std::vector<Evaluation> evaluate_within(std::int64_t budget, const Task& task, const Model& model, const Params& params,
                                        std::span<const EvaluationSet> sets, const EvaluateOptions& options) {
  std::vector<ClientAnswers> clients;
  const std::int64_t share = std::max<std::int64_t>(budget / params.clients(), 1);
  for (const EvaluationSet& set : sets) clients.emplace_back(task, set, share);
  std::vector<std::int64_t> order;
  for (std::size_t c = 0; c < clients.size(); ++c) {
    if (clients[c].batches() > 0) order.push_back(static_cast<std::int64_t>(c));
  }
  const auto batches = [&](std::int64_t c) { return clients[static_cast<std::size_t>(c)].batches(); };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return batches(a) > batches(b); });
  if (!order.empty()) {
    const bool as_given = std::is_sorted(order.begin(), order.end());
    const bool first_ones = as_given && order.back() + 1 == static_cast<std::int64_t>(order.size());
    std::vector<ClientAnswers*> asked;
    for (const std::int64_t c : order) asked.push_back(&clients[static_cast<std::size_t>(c)]);
    const Params cohort = first_ones ? params : rearranged(params, order);
    Evaluator(task, model, cohort, std::move(asked), options).run();
  }
  std::vector<Evaluation> results;
  for (ClientAnswers& client : clients) results.push_back(client.result(task, options));
  return results;
}

}  // namespace

Evaluation evaluate(const Task& task, const Model& model, const Params& params, const EvaluationSet& set,
                    const EvaluateOptions& options) {
  return std::move(evaluate_cohort(task, model, params, {&set, 1}, options).front());
}

std::vector<Evaluation> evaluate_cohort(const Task& task, const Model& model, const Params& params,
                                        std::span<const EvaluationSet> sets, const EvaluateOptions& options) {
  check(params.clients() == static_cast<std::int64_t>(sets.size()), "one set of examples per client");
  const at::NoGradGuard no_grad;
  const bool gpu = params.device().is_cuda();
  for (std::int64_t budget = token_budget(task, model, gpu, options.batch_tokens);; budget /= 2) {
    try {
      return evaluate_within(budget, task, model, params, sets, options);
    } catch (const std::exception& error) {
      if (!gpu || budget < 2 * kFewestTokens || !is_out_of_memory(error)) throw;
    }
    release_unused_memory();
    Log("evaluate").debug("{} tokens do not fit into the GPU's memory; trying {}", budget, budget / 2);
  }
}

}  // namespace chorus::inline tasks
