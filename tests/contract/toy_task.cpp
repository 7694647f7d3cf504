#include "tests/contract/toy_task.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "application/models/loss.h"
#include "application/models/ops/layers.h"
#include "application/tasks/text_rows.h"

namespace chorus::inline contract {
namespace {

/// One linear layer for the topic and one for the length, on the first and the last token: [C, B, labels + 1].
class ToyHead : public HeadModule {
 public:
  explicit ToyHead(const HeadInput& input) {
    const auto labels = static_cast<std::int64_t>(input.config.labels().size());
    const Init normal = Init::normal(input.deviation);
    topic_ = Linear::add(input.layout, "toy.topic", {input.width, labels}, normal);
    length_ = Linear::add(input.layout, "toy.length", {input.width, 1}, normal);
  }

  Output apply(const Params& params, const Batch& batch, const at::Tensor& hidden, Dropout& dropout) const override {
    const Packing& packing = *batch.packing;
    const at::Tensor ends = Packing::pick(hidden, packing.first_token()) + Packing::pick(hidden, packing.last_token());
    const at::Tensor x = dropout.hidden(ends, 0.1);
    return {torch::cat({topic_(params, x), length_(params, x)}, -1), hidden};
  }

 private:
  Linear topic_, length_;
};

constexpr HeadTraits kToyTraits{
    .name = "toy_topic_and_length",
    .summary = "a topic and a length per text",
    .class_ending = "ForTopicAndLength",
    .labelled = true,
    .per_sequence = true,
    .module = [](const HeadInput& input) -> std::unique_ptr<HeadModule> { return std::make_unique<ToyHead>(input); }};
const HeadRegistration kToyHead(kToyTraits);

const Registration<Tasks, ToyConfig> kToyTask{
    "toy_topic_and_length", "the topic of a text and its length",
    [](const ToyConfig& config, const TaskInput& input) { return std::make_unique<ToyTask>(config, input); }};

/// The number of correct topics, and the error of the lengths.
class ToyMetric : public TallyMetric {
 public:
  using TallyMetric::TallyMetric;

  void add(bool right, double length_error) {
    tally_.add(tally_.index("text"), {right ? 1.0 : 0.0, length_error, 1});
    tally_.end_example();
  }
  std::unique_ptr<Metric> fresh(Keep keep) const override { return std::make_unique<ToyMetric>(keep); }
  std::string signature() const override { return "toy"; }

 protected:
  Scores finish(const Tally& tally) const override {
    const auto [right, error, texts] = tally.totals().empty() ? Tally::Triple{} : tally.totals().front();
    return {{"topic_accuracy", right / texts}, {"length_error", error / texts}, {"examples", texts}};
  }
};

double log_length(std::string_view text) { return std::log1p(static_cast<double>(text.size())); }

}  // namespace

void ToyConfig::describe(ConfigVisitor& visitor) {
  visitor.field("max_length", max_length, "tokens of a text").at_least(4);
  visitor.field("length_weight", length_weight, "of the length in the loss").at_least(0);
}

ToyTask::ToyTask(const ToyConfig& config, const TaskInput& input)
    : Task("toy_topic_and_length", input), config_(config) {}

Head ToyTask::head() const { return Head(kToyTraits); }

std::string ToyTask::encoding_key() const { return fmt::format("max_length={}", config_.max_length); }

void ToyTask::encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const {
  const std::vector<std::int32_t> map = label_map(data.labels());
  TextRows rows(tokenizer(), config_.max_length);
  for (const std::uint32_t example : examples) {
    rows.append(data.text(example), out.ids);
    out.labels.push_back(map.at(static_cast<std::size_t>(data.label_ids()[example])));
    out.scores.push_back(static_cast<float>(log_length(data.text(example))));
    out.end_row();
    out.end_example(example);
  }
}

TaskBatch ToyTask::collate(std::span<const ClientRows> cohort, const CollateOptions& options) const {
  TaskBatch batch = pack_rows(cohort, options.device);
  batch.labels = pack_sequences<std::int64_t>(
      batch, kIgnore, [](const EncodedDataset& data, std::uint32_t row) { return data.label(row); });
  batch.fields.push_back(
      pack_sequences<float>(batch, 0, [](const EncodedDataset& data, std::uint32_t row) { return data.score(row); }));
  batch.counted = count_labels(batch.labels);
  return batch;
}

at::Tensor ToyTask::loss(const Output& output, const TaskBatch& batch) const {
  const std::int64_t topics = output.logits.size(-1) - 1;
  const at::Tensor length =
      squared_error(output.logits.narrow(-1, topics, 1), batch.fields.at(0), batch.labels.ne(kIgnore));
  return cross_entropy(output.logits.narrow(-1, 0, topics).contiguous(), batch.labels) + length * config_.length_weight;
}

std::vector<Prediction> ToyTask::decode(const Output& output, const TaskBatch& batch, const Dataset&) const {
  const at::Tensor logits = output.logits[0].detach().to(at::kCPU);
  const std::int64_t topics = logits.size(-1) - 1;
  std::vector<Prediction> result;
  for (std::size_t b = 0; b < batch.rows.at(0).size(); ++b) {
    const at::Tensor row = logits[static_cast<std::int64_t>(b)];
    Prediction prediction{.example = batch.data[0]->example_of(batch.rows[0][b])};
    prediction.label = static_cast<std::int32_t>(row.narrow(0, 0, topics).argmax().item<std::int64_t>());
    prediction.score = row[topics].item<double>();
    result.push_back(std::move(prediction));
  }
  return result;
}

void ToyTask::write(const Prediction& prediction, const Dataset&, nlohmann::json& line) const {
  line["topic"] = labels().at(static_cast<std::size_t>(prediction.label));
  line["length"] = std::expm1(prediction.score);
}

std::unique_ptr<Metric> ToyTask::metric(Keep keep) const { return std::make_unique<ToyMetric>(keep); }

void ToyTask::score(const Prediction& prediction, const Dataset& data, Metric& metric) const {
  const Example example = data.at(prediction.example);
  const bool right = labels().at(static_cast<std::size_t>(prediction.label)) == data.labels().at(example.label);
  dynamic_cast<ToyMetric&>(metric).add(right, std::abs(prediction.score - log_length(example.text)));
}

}  // namespace chorus::inline contract
