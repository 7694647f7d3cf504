#include "application/trainer/public_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "application/models/loss.h"
#include "core/base/error.h"
#include "core/base/stop_point.h"

namespace chorus::inline trainer {
namespace {

// Tokens per forward pass over all clients.
constexpr std::int64_t kMostTokens = 1 << 15;

// Calls found(position) for the first token of each word of a row.
template <typename Found>
void first_pieces(const EncodedDataset& data, std::uint32_t row, Found found) {
  std::int32_t before = -1;
  std::int64_t position = 0;
  for (const std::int32_t word : data.words(row)) {
    if (word >= 0 && word != before) found(position);
    before = word;
    ++position;
  }
}

// A logit so far below the others stands for no word.
constexpr double kNoWord = 30;

// Starts and ends over the words of the context, [C, 2 rows, K], in logits [C, T, 2]. Every row has K logits.
at::Tensor word_answers(const TaskBatch& batch, const at::Tensor& logits, std::int64_t most) {
  std::vector<std::int64_t> chosen;
  std::vector<std::int64_t> none;
  std::int64_t begin = 0;
  for (const std::uint32_t row : batch.rows.at(0)) {
    const EncodedDataset& data = *batch.data.at(0);
    const std::vector<ContextWord> words = context_words(data, row);
    check(static_cast<std::int64_t>(words.size()) < most, "a row has no more words than the longest");
    for (const bool end : {false, true}) {
      chosen.push_back(2 * begin + (end ? 1 : 0));
      for (const ContextWord& word : words)
        chosen.push_back(2 * (begin + (end ? word.last : word.first)) + (end ? 1 : 0));
      none.insert(none.end(), words.size() + 1, 0);
      chosen.resize(none.size() + static_cast<std::size_t>(most) - words.size() - 1, 0);
      none.resize(chosen.size(), 1);
    }
    begin += static_cast<std::int64_t>(data.length(row));
  }
  const at::Tensor index = torch::tensor(chosen, at::kLong).to(logits.device());
  const at::Tensor empty = torch::tensor(none, at::kLong).to(logits.device()).to(at::kBool).view({1, -1, most});
  const at::Tensor picked = logits.flatten(1).index_select(1, index).view({logits.size(0), -1, most});
  const at::Tensor low = picked.detach().masked_fill(empty, -HUGE_VAL).amax(-1, true) - kNoWord;
  return torch::where(empty, low, picked);
}

// Targets [n, ...] for all clients or [C, n, ...], as [C, n, ...] like the logits.
at::Tensor each_client(const at::Tensor& targets, std::int64_t dimensions, const at::Tensor& logits) {
  const at::Tensor there = targets.to(logits.device());
  const at::Tensor rows = there.dim() == dimensions ? there : there.unsqueeze(0);
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape[0] = logits.size(0);
  return rows.expand(shape).contiguous();
}

void check_head(const TrainerInput& trainer, const PublicTexts& set, const char* what) {
  const Head head = trainer.model.head();
  if (set.words) return;
  if (head == Head::kSequenceClassification || head == Head::kTokenClassification || head == Head::kCausalLm) return;
  if (head == Head::kQuestionAnswering) return;
  throw ConfigError(
      fmt::format("the task {} has no {} on given rows: its head, {}, has no fixed list of classes for each row; use a "
                  "classification, tagging, question answering or language modelling task",
                  trainer.task.name(), what, name_of(head)));
}

}  // namespace

std::shared_ptr<const PublicTexts> public_texts(const PublicTextsInput& input) {
  auto set = std::make_shared<PublicTexts>(PublicTexts{input.set});
  const Head head = input.task.head();
  if (head == Head::kQuestionAnswering) {
    for (const std::uint32_t row : set->rows) {
      set->choices = std::max(set->choices, 1 + static_cast<std::int64_t>(context_words(*set->data, row).size()));
    }
  }
  if (input.texts == nullptr || (head != Head::kCausalLm && head != Head::kMaskedLm)) return set;
  auto words =
      std::make_shared<SharedWords>(SharedWords::Input{input.task, *input.texts, *set, input.words, input.device});
  set->rows = words->keep_predicted(set->rows);
  set->words = std::move(words);
  return set;
}

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

std::vector<ContextWord> context_words(const EncodedDataset& data, std::uint32_t row) {
  const auto [begin, end] = data.context(row);
  const auto first = data.char_begin(row), behind = data.char_end(row);
  std::vector<ContextWord> words;
  for (std::uint32_t token = begin; token < end; ++token) {
    if (behind[token] <= first[token]) continue;  // stands for no characters
    if (words.empty() || first[token] > behind[static_cast<std::size_t>(words.back().last)]) {
      words.push_back({token, token, first[token]});
    }
    words.back().last = token;
  }
  return words;
}

at::Tensor answers_of(const TrainerInput& trainer, const PublicTexts& set, const TaskBatch& batch,
                      const at::Tensor& logits) {
  check_head(trainer, set, "predictions");
  const Model& model = trainer.model;
  if (set.words) return set.words->predictions(SharedWords::beginnings(batch, logits));
  if (model.head() == Head::kQuestionAnswering) return word_answers(batch, logits, set.choices);
  if (model.head()->per_sequence) return logits;
  if (model.head() != Head::kTokenClassification) {  // on a GPU, tokens are padded to a round number
    const std::vector<std::int64_t>& lengths = batch.batch.packing->lengths().at(0);
    return logits.narrow(1, 0, std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  }
  std::vector<std::int64_t> chosen;
  std::int64_t begin = 0;
  for (const std::uint32_t row : batch.rows.at(0)) {
    first_pieces(*batch.data.at(0), row, [&](std::int64_t position) { chosen.push_back(begin + position); });
    begin += static_cast<std::int64_t>(batch.data.at(0)->length(row));
  }
  return logits.index_select(1, torch::tensor(chosen, at::kLong).to(logits.device()));
}

bool on_device(const TrainerInput& trainer, const PublicTexts& set) {
  return !set.words && trainer.model.head()->per_sequence;
}

std::vector<std::int64_t> answer_counts(const Model& model, const PublicTexts& set) {
  if (set.words) return set.words->counts();
  std::vector<std::int64_t> counts;
  if (model.head() == Head::kQuestionAnswering) counts.assign(set.rows.size(), 2);
  if (model.head() != Head::kTokenClassification) return counts;
  for (const std::uint32_t row : set.rows) {
    std::int64_t words = 0;
    first_pieces(*set.data, row, [&](std::int64_t) { ++words; });
    counts.push_back(words);
  }
  return counts;
}

at::Tensor predict_rows(const TrainerInput& trainer, const Params& params, const PublicTexts& set,
                        std::span<const std::uint32_t> rows) {
  check_head(trainer, set, "predictions");
  const at::NoGradGuard no_grad;
  const std::vector<TrainClient> clients(static_cast<std::size_t>(params.clients()));
  const std::int64_t most = std::max<std::int64_t>(kMostTokens / params.clients(), 1);
  std::vector<at::Tensor> logits;
  for (std::size_t first = 0; first < rows.size();) {
    stop_point();
    std::size_t behind = first;
    for (std::int64_t tokens = 0; behind < rows.size(); ++behind) {
      check(rows[behind] < set.rows.size(), "no such row in the public set");
      tokens += static_cast<std::int64_t>(set.data->length(set.rows[rows[behind]]));
      if (behind > first && tokens > most) break;
    }
    std::vector<std::uint32_t> chosen;
    const auto some = rows.subspan(first, behind - first);
    const auto cohort = public_cohort(set, some, clients, chosen);
    TaskBatch batch = set.words ? set.words->collate(cohort, some, params.device())
                                : trainer.task.collate(cohort, {.device = params.device()});
    if (trainer.cache != nullptr) trainer.cache->fill(trainer.model, params, batch.batch);
    batch.batch.answers = at::Tensor();
    Dropout off;
    logits.push_back(answers_of(trainer, set, batch, trainer.model.answer(params, batch.batch, off).logits));
    first = behind;
  }
  check(!logits.empty(), "no rows were asked for");
  return torch::cat(logits, 1).to(at::kFloat);
}

bool given(const Targets& targets) {
  return targets.labels.defined() || targets.probabilities.defined() || targets.votes.defined() ||
         targets.rewards.defined() || targets.scores.defined();
}

void check_targets(const TrainerInput& trainer, const PublicTexts& set, const Targets& targets) {
  check(!targets.labels.defined() || !targets.probabilities.defined(), "targets are labels or probabilities, not both");
  if (!given(targets)) return;
  check_head(trainer, set, targets.labels.defined() ? "given labels" : "soft targets");
  const bool classes = targets.labels.defined() || targets.probabilities.defined() || targets.votes.defined() ||
                       targets.rewards.defined();
  if (classes && trainer.model.head() == Head::kSequenceClassification && trainer.model.config().labels().size() < 2) {
    throw ConfigError(
        fmt::format("the task {} has no soft targets or given labels: its model answers one score, not "
                    "probabilities of classes",
                    trainer.task.name()));
  }
  if (!(targets.own >= 0 && targets.own <= 1)) {
    throw ConfigError(
        fmt::format("the share of the public texts in the loss is {}; it must be in [0, 1]", targets.own));
  }
  if (targets.own > 0 && !set.words) {
    throw ConfigError(fmt::format("the task {} cannot learn from public texts without labels; only language models can",
                                  trainer.task.name()));
  }
  if (!(targets.temperature > 0)) {
    throw ConfigError(fmt::format("the temperature of soft targets is {}; it must be positive", targets.temperature));
  }
}

at::Tensor target_loss(const TrainerInput& trainer, const PublicTexts& set, const Output& output,
                       const TaskBatch& batch, const Targets& targets) {
  if (!given(targets) || targets.own == 1) return trainer.task.loss(output, batch);
  const at::Tensor logits = answers_of(trainer, set, batch, output.logits);
  const auto beside = [&](const at::Tensor& numbers) {
    const at::Tensor rows = each_client(numbers.to(at::kFloat), 3, logits);
    check(rows.sizes() == logits.sizes(), "one number per class and answer");
    return rows;
  };
  at::Tensor loss;
  const auto add = [&](const at::Tensor& more) { loss = loss.defined() ? loss + more : more; };
  if (targets.labels.defined()) {
    const at::Tensor labels = each_client(targets.labels, 2, logits);
    check(labels.size(1) == logits.size(1), "one label per answer");
    add(cross_entropy(logits, labels));
  }
  if (targets.probabilities.defined()) {
    add(soft_cross_entropy(logits, beside(targets.probabilities), targets.temperature));
  }
  const at::Tensor wide = logits.to(at::kFloat);
  if (targets.votes.defined()) add(-(beside(targets.votes) * torch::log_softmax(wide, -1)).sum(-1).mean(1));
  if (targets.rewards.defined()) add(-(beside(targets.rewards) * torch::softmax(wide, -1)).sum(-1).mean(1));
  if (targets.scores.defined()) add((wide - beside(targets.scores)).square().mean({1, 2}));
  if (targets.own > 0) loss = targets.own * trainer.task.loss(output, batch) + (1 - targets.own) * loss;
  return loss;
}

}  // namespace chorus::inline trainer
