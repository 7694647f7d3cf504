#include "application/tasks/evaluate.h"

#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/error.h"

namespace chorus {
namespace {

// Logits of a language model take tokens x vocabulary floats; this keeps a batch's below 256 MiB.
constexpr std::int64_t kMostLogits = std::int64_t{1} << 26;

struct Item {
  std::size_t place;  // among the examples asked for
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
  // By the example where lengths are equal: batches, and so rounding, do not depend on the order asked for.
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.longest != b.longest ? a.longest > b.longest : a.begin < b.begin;
  });
  return items;
}

}  // namespace

Evaluation evaluate(const Task& task, const Model& model, const Params& params, const EvaluationSet& set,
                    const EvaluateOptions& options) {
  check(params.clients() == 1, "evaluation is of one client at a time");
  const at::NoGradGuard no_grad;
  std::int64_t budget = options.batch_tokens;
  if (task.head() == Head::kCausalLm || task.head() == Head::kSeq2Seq) {
    budget = std::min(budget, std::max<std::int64_t>(kMostLogits / std::max<std::int64_t>(model.vocabulary(), 1), 1));
  }
  const ClientData rearranged = task.client_data(set.encoded, set.examples);
  const EncodedDataset& encoded = *rearranged.data;
  const auto examples = rearranged.data == set.encoded ? set.examples : encoded.examples();
  const std::vector<Item> items = items_of(encoded, examples);
  std::vector<Prediction> answers(examples.size());
  std::vector<bool> answered(examples.size(), false);
  double loss = 0, counted = 0;
  for (std::size_t first = 0; first < items.size();) {
    std::vector<std::uint32_t> rows;
    std::size_t behind = first;
    for (; behind < items.size(); ++behind) {
      const auto more = static_cast<std::int64_t>(rows.size() + (items[behind].end - items[behind].begin));
      if (behind > first && more * items[first].longest > budget) break;
      for (std::uint32_t row = items[behind].begin; row < items[behind].end; ++row) rows.push_back(row);
    }
    const std::vector<ClientRows> cohort{{&encoded, rows}};
    TaskBatch batch = task.collate(cohort, {.seed = options.seed, .device = params.device()});
    if (options.cache != nullptr) options.cache->fill(model, params, batch.batch);
    Dropout off;
    const Output output = model.forward(params, batch.batch, off);
    const auto answers_counted = batch.counted.sum().item<double>();
    if (answers_counted > 0) loss += task.loss(output, batch)[0].item<double>() * answers_counted;
    counted += answers_counted;
    std::vector<Prediction> decoded = task.predict(model, params, output, batch, set.data);
    check(decoded.size() == behind - first, "one answer an example");
    for (std::size_t i = first; i < behind; ++i) {
      answers[items[i].place] = std::move(decoded[i - first]);
      answered[items[i].place] = true;
    }
    first = behind;
  }

  Evaluation result{.metric = task.metric(options.keep), .scores = {}, .predictions = {}};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    answers[i].example = examples[i];
    if (answered[i]) task.score(answers[i], set.data, *result.metric);
  }
  result.scores = result.metric->scores();
  result.scores["eval_loss"] = counted > 0 ? loss / counted : std::numeric_limits<double>::quiet_NaN();
  if (options.predictions) result.predictions = std::move(answers);
  return result;
}

}  // namespace chorus
