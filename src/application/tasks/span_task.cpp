#include "application/tasks/span_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "application/metrics/squad.h"
#include "application/models/loss.h"
#include "application/tasks/span_windows.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline tasks {
namespace {

const Registration<Tasks, SpanConfig> kSpan{
    "span_extraction", "question answering: which part of a text answers the question",
    [](const SpanConfig& config, const TaskInput& input) { return std::make_unique<SpanTask>(config, input); }};

/// The indices of the `count` largest of values[begin, end), largest first; the earlier of equals first.
std::vector<std::uint32_t> best_places(const float* values, std::pair<std::uint32_t, std::uint32_t> range,
                                       std::size_t count) {
  std::vector<std::uint32_t> places(range.second - range.first);
  std::iota(places.begin(), places.end(), range.first);
  const auto kept = std::min(count, places.size());
  std::partial_sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(kept), places.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      return values[2 * a] != values[2 * b] ? values[2 * a] > values[2 * b] : a < b;
                    });
  places.resize(kept);
  return places;
}

/// Softmax over the candidates' scores.
void set_probabilities(std::vector<SpanAnswer>& answers) {
  double highest = answers.front().score, sum = 0;
  for (const SpanAnswer& answer : answers) highest = std::max(highest, answer.score);
  for (SpanAnswer& answer : answers) sum += answer.probability = std::exp(answer.score - highest);
  for (SpanAnswer& answer : answers) answer.probability /= sum;
}

}  // namespace

void SpanConfig::describe(ConfigVisitor& visitor) {
  visitor.field("max_length", max_length, "tokens of a window, question included").at_least(8);
  visitor.field("doc_stride", doc_stride, "tokens between the beginnings of two windows").at_least(1);
  visitor.field("max_query_length", max_query_length, "tokens of the question; the rest is cut").at_least(1);
  visitor.field("n_best", n_best, "candidates for start and end in a window, and answers kept").at_least(1);
  visitor.field("max_answer_length", max_answer_length, "tokens of an answer").at_least(1);
  visitor.field("ask_cls", ask_cls, "train windows without the answer to point at the first token");
  visitor.field("no_answer", no_answer, "the model may answer nothing (SQuAD v2.0)");
  visitor.field("no_answer_threshold", no_answer_threshold, "how much better 'no answer' must be than the best span");
  visitor.field("fednlp_skip_tokens", fednlp_skip_tokens,
                "let a doc_stride beyond the window leave tokens unseen, as FedNLP does");
}

SpanTask::SpanTask(const SpanConfig& config, const TaskInput& input) : Task("span_extraction", input), config_(config) {
  input_.labels.clear();
  if (config_.doc_stride >= config_.max_length && !config_.fednlp_skip_tokens) {
    throw ConfigError(
        fmt::format("doc_stride {} with windows of max_length {} would leave tokens unseen; lower it, or "
                    "set fednlp_skip_tokens if that is meant",
                    config_.doc_stride, config_.max_length));
  }
}

std::string SpanTask::encoding_key() const {
  return fmt::format("max_length={} stride={} query={} cls={} skip={}", config_.max_length, config_.doc_stride,
                     config_.max_query_length, config_.ask_cls, config_.fednlp_skip_tokens);
}

void SpanTask::encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const {
  const WindowOptions options{.max_length = static_cast<std::size_t>(config_.max_length),
                              .doc_stride = static_cast<std::size_t>(config_.doc_stride),
                              .max_query_length = static_cast<std::size_t>(config_.max_query_length),
                              .skip_tokens = config_.fednlp_skip_tokens,
                              .ask_cls = config_.ask_cls};
  for (const std::uint32_t index : examples) {
    const Example example = data.at(index);
    std::optional<AnswerView> answer;
    if (!example.answers.empty() && example.answers[0].begin >= 0 &&
        example.answers[0].begin < example.answers[0].end) {
      answer = example.answers[0];
    }
    append_windows(tokenizer(), example.second, example.text, answer, options, out);
    out.end_example(index);
  }
}

TaskBatch SpanTask::collate(std::span<const ClientRows> cohort, const CollateOptions& options) const {
  TaskBatch batch = pack_rows(cohort, options.device);
  batch.starts = pack_sequences<std::int64_t>(
      batch, kIgnore, [](const EncodedDataset& data, std::uint32_t row) { return data.answer(row).first; });
  batch.ends = pack_sequences<std::int64_t>(
      batch, kIgnore, [](const EncodedDataset& data, std::uint32_t row) { return data.answer(row).second; });
  batch.counted = count_labels(batch.starts);
  return batch;
}

at::Tensor SpanTask::loss(const Output& output, const TaskBatch& batch) const {
  return span_loss(output.logits, batch.starts, batch.ends, *batch.batch.packing);
}

std::vector<Prediction> SpanTask::decode(const Output& output, const TaskBatch& batch, const Dataset& data) const {
  const auto n_best = static_cast<std::size_t>(config_.n_best);
  const auto longest = static_cast<std::uint32_t>(config_.max_answer_length);
  const at::Tensor logits = output.logits.detach().to(at::kCPU).to(at::kFloat).contiguous();
  const float* window = logits.data_ptr<float>();  // (start, end) of each token of the row
  const auto better = [](const SpanAnswer& a, const SpanAnswer& b) { return a.score > b.score; };
  std::vector<Prediction> result;
  for (const auto& [begin, end] : examples_in(batch)) {
    const EncodedDataset& encoded = *batch.data[0];
    Prediction prediction{.example = encoded.example_of(batch.rows[0][begin])};
    std::vector<SpanAnswer>& answers = prediction.answers;
    double nothing = std::numeric_limits<double>::infinity();
    for (std::size_t b = begin; b < end; ++b) {
      const std::uint32_t row = batch.rows[0][b];
      const auto context = encoded.context(row);
      nothing = std::min(nothing, static_cast<double>(window[0]) + window[1]);
      const auto first_char = encoded.char_begin(row);
      const auto last_char = encoded.char_end(row);
      const auto ends = best_places(window + 1, context, n_best);
      for (const std::uint32_t s : best_places(window, context, n_best)) {
        for (const std::uint32_t e : ends) {
          if (e < s || e - s >= longest || last_char[e] <= first_char[s]) continue;
          answers.push_back({.text = {},
                             .begin = first_char[s],
                             .end = last_char[e],
                             .score = static_cast<double>(window[2 * s]) + window[2 * e + 1]});
        }
      }
      window += 2 * encoded.length(row);
    }
    std::stable_sort(answers.begin(), answers.end(), better);
    // Overlapping windows offer the same characters; keep the better one.
    std::vector<SpanAnswer> distinct;
    for (const SpanAnswer& answer : answers) {
      if (distinct.size() == n_best) break;
      const bool known = std::any_of(distinct.begin(), distinct.end(), [&](const SpanAnswer& other) {
        return other.begin == answer.begin && other.end == answer.end;
      });
      if (!known) distinct.push_back(answer);
    }
    const std::string_view text = data.text(prediction.example);
    const std::vector<std::uint32_t> byte = utf8::byte_positions(text);
    for (SpanAnswer& answer : distinct) {
      const std::size_t from = byte[std::min<std::size_t>(answer.begin, byte.size() - 1)];
      const std::size_t to = byte[std::min<std::size_t>(answer.end, byte.size() - 1)];
      answer.text = text.substr(from, to - from);
    }
    if (config_.no_answer || distinct.empty()) {
      distinct.push_back({.text = {}, .begin = 0, .end = 0, .score = nothing});
    }
    set_probabilities(distinct);
    const bool silent = config_.no_answer && nothing - distinct.front().score > config_.no_answer_threshold;
    if (!silent) prediction.text = distinct.front().text;
    answers = std::move(distinct);
    if (config_.no_answer) std::stable_sort(answers.begin(), answers.end(), better);
    result.push_back(std::move(prediction));
  }
  return result;
}

void SpanTask::write(const Prediction& prediction, const Dataset&, nlohmann::json& line) const {
  line["text"] = prediction.text;
}

std::unique_ptr<Metric> SpanTask::metric(Keep keep) const {
  return std::make_unique<SquadF1>(config_.no_answer ? SquadVersion::kV2 : SquadVersion::kV1, keep);
}

void SpanTask::score(const Prediction& prediction, const Dataset& data, Metric& metric) const {
  const AnswerList list = data.at(prediction.example).answers;
  std::vector<std::string> golds;
  for (std::size_t i = 0; i < list.size(); ++i) golds.emplace_back(list[i].text);
  dynamic_cast<SquadF1&>(metric).add(prediction.text, golds);
}

}  // namespace chorus::inline tasks
