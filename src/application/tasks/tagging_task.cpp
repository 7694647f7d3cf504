#include "application/tasks/tagging_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "application/metrics/spans.h"
#include "application/models/loss.h"
#include "core/base/error.h"

namespace chorus::inline tasks {
namespace {

const Registration<Tasks, TaggingConfig> kTagging{
    "seq_tagging", "words to tags, the first word piece carries the tag",
    [](const TaggingConfig& config, const TaskInput& input) { return std::make_unique<TaggingTask>(config, input); }};

}  // namespace

void TaggingConfig::describe(ConfigVisitor& visitor) {
  visitor.field("max_length", max_length, "tokens of a sentence, special ones included; the rest is cut").at_least(4);
  visitor.field("label_all_pieces", label_all_pieces, "every piece of a word carries its tag, not only the first");
  visitor.field("strict", strict, "score with seqeval's strict IOB2 mode");
  visitor.field("fednlp_drop_lost_words", fednlp_drop_lost_words,
                "leave words that were cut off or have no token out of the score, as FedNLP does");
  visitor.field("fednlp_attend_padding", fednlp_attend_padding,
                "pad every sentence to max_length and read the padding as text, as FedNLP does");
}

TaggingTask::TaggingTask(const TaggingConfig& config, const TaskInput& input)
    : Task("seq_tagging", input), config_(config) {
  if (labels().empty()) throw ConfigError("seq_tagging needs the tags the data uses");
  if (config_.fednlp_attend_padding && !tokenizer().special().pad) {
    throw ConfigError("fednlp_attend_padding needs a tokenizer with a pad token");
  }
  for (std::size_t i = 0; i < labels().size(); ++i) {
    const std::string& tag = labels()[i];
    const auto inner = tag.starts_with("B-") ? std::find(labels().begin(), labels().end(), "I-" + tag.substr(2))
                                             : labels().begin() + static_cast<std::ptrdiff_t>(i);
    inside_.push_back(static_cast<std::int32_t>(inner == labels().end() ? i : inner - labels().begin()));
  }
}

std::string TaggingTask::encoding_key() const {
  return fmt::format("max_length={} all={} pad={}", config_.max_length, config_.label_all_pieces,
                     config_.fednlp_attend_padding);
}

void TaggingTask::encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const {
  const std::vector<std::int32_t> map = label_map(data.tags());
  std::vector<std::string_view> words;
  for (const std::uint32_t example : examples) {
    const WordList list = data.words(example);
    const auto tags = data.tag_ids(example);
    words.clear();
    for (std::size_t w = 0; w < list.size(); ++w) words.push_back(list[w]);
    const Encoding row = tokenizer().encode_words(words, {.max_length = static_cast<std::size_t>(config_.max_length)});
    std::size_t seen = 0;
    std::int32_t before = -1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::int32_t word = row.words[i];
      out.ids.push_back(row.ids[i]);
      out.words.push_back(word);
      const bool first = word >= 0 && word != before;
      std::int32_t tag = kIgnored;
      if (word >= 0 && !tags.empty() && (first || config_.label_all_pieces)) {
        const std::int32_t given = tags[static_cast<std::size_t>(word)];
        if (given < 0 || map[static_cast<std::size_t>(given)] < 0) {
          unknown_label(data, example, given < 0 ? "" : data.tags().at(given));
        }
        tag = map[static_cast<std::size_t>(given)];
        if (!first) tag = inside_[static_cast<std::size_t>(tag)];
      }
      out.tags.push_back(tag);
      seen += first ? 1 : 0;
      before = word;
    }
    if (row.size() == 0) {
      out.ids.push_back(filler());
      out.words.push_back(-1);
      out.tags.push_back(kIgnored);
    }
    if (config_.fednlp_attend_padding) {
      const std::size_t size = out.ids.size() - row.size() + static_cast<std::size_t>(config_.max_length);
      out.ids.resize(size, tokenizer().special().pad.value());
      out.words.resize(size, -1);
      out.tags.resize(size, kIgnored);
    }
    if (row.size() == static_cast<std::size_t>(config_.max_length)) out.count(EncodeCount::kTruncated);
    out.count(EncodeCount::kLostWords, list.size() - seen);
    out.end_row();
    out.end_example(example);
  }
}

TaskBatch TaggingTask::collate(std::span<const ClientRows> cohort, const CollateOptions& options) const {
  TaskBatch batch = pack_rows(cohort, options.device);
  batch.labels =
      pack_tokens(batch, kIgnore, [](const EncodedDataset& data, std::uint32_t row) { return data.tags(row); });
  batch.counted = count_labels(batch.labels);
  return batch;
}

at::Tensor TaggingTask::loss(const Output& output, const TaskBatch& batch) const {
  return cross_entropy(output.logits, batch.labels);
}

std::vector<Prediction> TaggingTask::decode(const Output& output, const TaskBatch& batch, const Dataset& data) const {
  check(batch.rows.size() == 1, "answers are decoded for one client at a time");
  const at::Tensor best = output.logits.detach().argmax(-1).to(at::kCPU).contiguous();
  const std::int64_t* tag = best.data_ptr<std::int64_t>();
  std::vector<Prediction> result;
  for (const std::uint32_t row : batch.rows[0]) {
    Prediction prediction{.example = batch.data[0]->example_of(row)};
    prediction.tags.assign(data.words(prediction.example).size(), -1);
    std::int32_t before = -1;
    for (const std::int32_t word : batch.data[0]->words(row)) {
      if (word >= 0 && word != before) {
        if (static_cast<std::size_t>(word) >= prediction.tags.size()) {
          throw DataError(fmt::format("example {} has fewer words than its encoding", prediction.example));
        }
        prediction.tags[static_cast<std::size_t>(word)] = static_cast<std::int32_t>(*tag);
      }
      before = word;
      ++tag;
    }
    result.push_back(std::move(prediction));
  }
  return result;
}

void TaggingTask::write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const {
  const WordList words = data.words(prediction.example);
  for (std::size_t w = 0; w < words.size(); ++w) line["words"].push_back(words[w]);
  for (const std::int32_t tag : prediction.tags) {
    line["tags"].push_back(tag < 0 ? "O" : labels().at(static_cast<std::size_t>(tag)));
  }
}

std::unique_ptr<Metric> TaggingTask::metric(Keep keep) const {
  return std::make_unique<SpanF1>(config_.strict ? SpanScheme::kIob2 : SpanScheme::kLenient, keep);
}

void TaggingTask::score(const Prediction& prediction, const Dataset& data, Metric& metric) const {
  const auto gold = data.tag_ids(prediction.example);
  std::vector<std::string> predicted, actual;
  for (std::size_t w = 0; w < gold.size(); ++w) {
    const std::int32_t tag = prediction.tags.at(w);
    if (tag < 0 && config_.fednlp_drop_lost_words) continue;
    predicted.push_back(tag < 0 ? "O" : labels().at(static_cast<std::size_t>(tag)));
    actual.emplace_back(data.tags().at(gold[w]));
  }
  if (!actual.empty()) dynamic_cast<SpanF1&>(metric).add(predicted, actual);
}

}  // namespace chorus::inline tasks
