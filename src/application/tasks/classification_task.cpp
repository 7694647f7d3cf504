#include "application/tasks/classification_task.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "application/metrics/classification.h"
#include "application/metrics/correlation.h"
#include "application/models/loss.h"
#include "application/tasks/text_rows.h"
#include "core/base/error.h"

namespace chorus::inline tasks {
namespace {

auto maker(Formulation formulation) {
  return [formulation](const ClassificationConfig& config, const TaskInput& input) {
    return std::make_unique<ClassificationTask>(config, formulation, input);
  };
}

const Registration<Tasks, ClassificationConfig> kText{"text_classification", "one text to a class",
                                                      maker(Formulation::kTextClassification)};
const Registration<Tasks, ClassificationConfig> kPair{"pair_classification", "two texts to a class (GLUE)",
                                                      maker(Formulation::kPairClassification)};
const Registration<Tasks, ClassificationConfig> kScore{"pair_regression", "two texts to a number (STS-B)",
                                                       maker(Formulation::kPairRegression)};

}  // namespace

void ClassificationConfig::describe(ConfigVisitor& visitor) {
  visitor.field("max_length", max_length, "tokens of a text, special ones included; the rest is cut").at_least(4);
  visitor.field("fednlp_attend_padding", fednlp_attend_padding,
                "pad every text to max_length and read the padding as text, as FedNLP does");
}

ClassificationTask::ClassificationTask(const ClassificationConfig& config, Formulation formulation,
                                       const TaskInput& input)
    : Task(name_of(formulation), input), config_(config), formulation_(formulation) {
  if (regression()) input_.labels.clear();
  if (!regression() && labels().size() < 2) {
    throw ConfigError(fmt::format("{} needs at least two labels, not {}", name(), labels().size()));
  }
  if (config_.fednlp_attend_padding && !tokenizer().special().pad) {
    throw ConfigError("fednlp_attend_padding needs a tokenizer with a pad token");
  }
}

std::string ClassificationTask::encoding_key() const {
  return fmt::format("max_length={} pad={}", config_.max_length, config_.fednlp_attend_padding);
}

void ClassificationTask::encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const {
  const bool pair = formulation_ != Formulation::kTextClassification;
  const std::vector<std::int32_t> map = label_map(data.labels());
  TextRows rows(tokenizer(), config_.max_length);
  for (const std::uint32_t example : examples) {
    const std::size_t begin = out.ids.size();
    const bool cut = pair ? rows.append_pair(data.text(example), data.second(example), out)
                          : rows.append(data.text(example), out.ids);
    if (cut) out.count(EncodeCount::kTruncated);
    if (out.ids.size() == begin) out.ids.push_back(filler());
    if (config_.fednlp_attend_padding) {
      out.ids.resize(begin + static_cast<std::size_t>(config_.max_length), tokenizer().special().pad.value());
    }
    if (!out.types.empty()) out.types.resize(out.ids.size(), 0);
    if (regression()) {
      const auto scores = data.scores();
      out.scores.push_back(scores.empty() ? std::numeric_limits<float>::quiet_NaN()
                                          : static_cast<float>(scores[example]));
    } else {
      const auto labels = data.label_ids();
      const std::int32_t label = labels.empty() ? -1 : labels[example];
      if (label >= 0 && map[static_cast<std::size_t>(label)] < 0) {
        unknown_label(data, example, data.labels().at(label));
      }
      out.labels.push_back(label < 0 ? static_cast<std::int32_t>(kIgnore) : map[static_cast<std::size_t>(label)]);
    }
    out.end_row();
    out.end_example(example);
  }
}

TaskBatch ClassificationTask::collate(std::span<const ClientRows> cohort, const CollateOptions& options) const {
  TaskBatch batch = pack_rows(cohort, options.device);
  if (regression()) {
    batch.scores = pack_sequences<float>(batch, std::numeric_limits<float>::quiet_NaN(),
                                         [](const EncodedDataset& data, std::uint32_t row) { return data.score(row); });
    // `labels` is kIgnore where there is no score.
    batch.labels = torch::zeros_like(batch.scores, at::kLong).masked_fill(batch.scores.isnan(), kIgnore);
    batch.scores = batch.scores.nan_to_num();
  } else {
    batch.labels = pack_sequences<std::int64_t>(
        batch, kIgnore, [](const EncodedDataset& data, std::uint32_t row) { return data.label(row); });
  }
  batch.counted = count_labels(batch.labels);
  return batch;
}

at::Tensor ClassificationTask::loss(const Output& output, const TaskBatch& batch) const {
  if (regression()) return squared_error(output.logits, batch.scores, batch.labels.ne(kIgnore));
  return cross_entropy(output.logits, batch.labels);
}

std::vector<Prediction> ClassificationTask::decode(const Output& output, const TaskBatch& batch, const Dataset&) const {
  check(batch.rows.size() == 1, "answers are decoded for one client at a time");
  const at::Tensor logits = output.logits.detach().to(at::kCPU).to(at::kFloat);
  const auto [probabilities, labels] = torch::softmax(logits[0], -1).max(-1);
  const at::Tensor probability = probabilities.contiguous(), best = labels.contiguous();
  std::vector<Prediction> result;
  for (std::size_t b = 0; b < batch.rows[0].size(); ++b) {
    Prediction prediction{.example = batch.data[0]->example_of(batch.rows[0][b])};
    const auto place = static_cast<std::int64_t>(b);
    if (regression()) {
      prediction.score = logits[0][place][0].item<double>();
    } else {
      prediction.label = static_cast<std::int32_t>(best.data_ptr<std::int64_t>()[place]);
      prediction.probability = static_cast<double>(probability.data_ptr<float>()[place]);
    }
    result.push_back(std::move(prediction));
  }
  return result;
}

void ClassificationTask::write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const {
  if (regression()) {
    line["score"] = prediction.score;
  } else {
    line["label"] = labels().at(static_cast<std::size_t>(prediction.label));
    line["probability"] = prediction.probability;
  }
  line["text"] = data.text(prediction.example);
}

std::unique_ptr<Metric> ClassificationTask::metric(Keep keep) const {
  if (regression()) return std::make_unique<Correlation>(keep);
  ClassificationOptions options{.labels = labels(), .positive = {}};
  if (labels().size() == 2) {
    // The binary F1 of GLUE's MRPC and QQP.
    for (const std::string& label : labels()) {
      if (label == "1") options.positive = label;
    }
  }
  return std::make_unique<Classification>(options, keep);
}

void ClassificationTask::score(const Prediction& prediction, const Dataset& data, Metric& metric) const {
  if (regression()) {
    const double gold = data.at(prediction.example).score;
    if (!std::isnan(gold)) dynamic_cast<Correlation&>(metric).add(prediction.score, gold);
    return;
  }
  const std::int32_t gold = data.at(prediction.example).label;
  if (gold < 0) return;
  dynamic_cast<Classification&>(metric).add(labels().at(static_cast<std::size_t>(prediction.label)),
                                            data.labels().at(gold));
}

}  // namespace chorus::inline tasks
