#include "application/trainer/public_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "application/models/loss.h"
#include "core/base/error.h"

namespace chorus::inline trainer {
namespace {

// Tokens of one forward pass, all clients together.
constexpr std::int64_t kMostTokens = 1 << 15;

// How many answers of a batch are real: on a GPU tokens are filled up to a round number.
std::int64_t answers_in(const Model& model, const TaskBatch& batch) {
  if (model.head()->per_sequence) return static_cast<std::int64_t>(batch.rows.at(0).size());
  const std::vector<std::int64_t>& lengths = batch.batch.packing->lengths().at(0);
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

// [n, ...] for all clients or [C, n, ...], as [C, n, ...] beside the logits.
at::Tensor each_client(const at::Tensor& targets, std::int64_t dimensions, const at::Tensor& logits) {
  const at::Tensor there = targets.to(logits.device());
  const at::Tensor rows = there.dim() == dimensions ? there : there.unsqueeze(0);
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape[0] = logits.size(0);
  return rows.expand(shape).contiguous();
}

void check_head(const TrainerInput& trainer, const char* what) {
  const Head head = trainer.model.head();
  if (head == Head::kSequenceClassification || head == Head::kTokenClassification || head == Head::kCausalLm) return;
  if (head == Head::kQuestionAnswering && std::string_view(what) == "predictions") return;
  throw ConfigError(
      fmt::format("the task {} has no {} on given rows: its head, {}, has no fixed list of classes for each row; use a "
                  "classification, tagging or causal language modelling task",
                  trainer.task.name(), what, name_of(head)));
}

}  // namespace

std::vector<ClientRows> public_cohort(const ClientData& set, std::span<const std::uint32_t> rows,
                                      std::span<const TrainClient> clients, std::vector<std::uint32_t>& chosen) {
  check(!rows.empty(), "no rows were asked for");
  chosen.clear();
  for (const std::uint32_t row : rows) {
    check(row < set.rows.size(), "no such row in the public set");
    chosen.push_back(set.rows[row]);
  }
  std::vector<ClientRows> cohort;
  for (const TrainClient& client : clients) cohort.push_back({set.data.get(), chosen, client.id});
  return cohort;
}

at::Tensor predict_rows(const TrainerInput& trainer, const Params& params, const ClientData& set,
                        std::span<const std::uint32_t> rows) {
  check_head(trainer, "predictions");
  const at::NoGradGuard no_grad;
  const std::vector<TrainClient> clients(static_cast<std::size_t>(params.clients()));
  const std::int64_t most = std::max<std::int64_t>(kMostTokens / params.clients(), 1);
  std::vector<at::Tensor> logits;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t behind = first;
    for (std::int64_t tokens = 0; behind < rows.size(); ++behind) {
      check(rows[behind] < set.rows.size(), "no such row in the public set");
      tokens += static_cast<std::int64_t>(set.data->length(set.rows[rows[behind]]));
      if (behind > first && tokens > most) break;
    }
    std::vector<std::uint32_t> chosen;
    const auto cohort = public_cohort(set, rows.subspan(first, behind - first), clients, chosen);
    TaskBatch batch = trainer.task.collate(cohort, {.device = params.device()});
    if (trainer.cache != nullptr) trainer.cache->fill(trainer.model, params, batch.batch);
    Dropout off;
    const Output output = trainer.model.forward(params, batch.batch, off);
    logits.push_back(output.logits.narrow(1, 0, answers_in(trainer.model, batch)));
    first = behind;
  }
  check(!logits.empty(), "no rows were asked for");
  return torch::cat(logits, 1);
}

void check_targets(const TrainerInput& trainer, const Targets& targets) {
  check(!targets.labels.defined() || !targets.probabilities.defined(), "targets are labels or probabilities, not both");
  if (!targets.labels.defined() && !targets.probabilities.defined()) return;
  check_head(trainer, targets.labels.defined() ? "given labels" : "soft targets");
  if (trainer.model.head() == Head::kSequenceClassification && trainer.model.config().labels().size() < 2) {
    throw ConfigError(
        fmt::format("the task {} has no soft targets or given labels: its model answers one score, not "
                    "probabilities of classes",
                    trainer.task.name()));
  }
  if (!(targets.temperature > 0)) {
    throw ConfigError(fmt::format("the temperature of soft targets is {}; it must be positive", targets.temperature));
  }
}

at::Tensor target_loss(const TrainerInput& trainer, const Output& output, const TaskBatch& batch,
                       const Targets& targets) {
  if (!targets.labels.defined() && !targets.probabilities.defined()) return trainer.task.loss(output, batch);
  const std::int64_t count = answers_in(trainer.model, batch);
  const at::Tensor logits = output.logits.narrow(1, 0, count);
  if (targets.labels.defined()) {
    const at::Tensor labels = each_client(targets.labels, 2, logits);
    check(labels.size(1) == count, "one label per answer");
    return cross_entropy(logits, labels);
  }
  const at::Tensor probabilities = each_client(targets.probabilities.to(at::kFloat), 3, logits);
  check(probabilities.sizes() == logits.sizes(), "one probability per class and answer");
  return soft_cross_entropy(logits, probabilities, targets.temperature);
}

}  // namespace chorus::inline trainer
