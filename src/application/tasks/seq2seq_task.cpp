#include "application/tasks/seq2seq_task.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "application/metrics/rouge.h"
#include "application/models/generation.h"
#include "application/models/loss.h"
#include "application/tasks/text_rows.h"
#include "core/base/error.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline tasks {
namespace {

const Registration<Tasks, Seq2SeqConfig> kSeq2Seq{
    "seq2seq", "a text to another text, with an encoder-decoder",
    [](const Seq2SeqConfig& config, const TaskInput& input) { return std::make_unique<Seq2SeqTask>(config, input); }};

std::string text_of(const Tokenizer& tokenizer, const std::int64_t* begin, const std::int64_t* end) {
  std::vector<std::int32_t> ids;
  for (; begin != end; ++begin) ids.push_back(static_cast<std::int32_t>(*begin));
  return tokenizer.decode(ids);
}

}  // namespace

void Seq2SeqConfig::describe(ConfigVisitor& visitor) {
  visitor.field("max_length", max_length, "tokens of the source, special ones included; the rest is cut").at_least(4);
  visitor.field("max_target_length", max_target_length, "tokens of the target").at_least(4);
  visitor.field("source_prefix", source_prefix, "put before every source, for example 'summarize: ' with T5");
  visitor.field("beams", beams, "beams of the search; unset: as the model's folder says").at_least(1);
  visitor.field("max_new_tokens", max_new_tokens, "tokens of a generated text; unset: max_target_length").at_least(1);
  visitor.field("stem", stem, "ROUGE over stemmed words");
  visitor.field("fednlp_shift_targets", fednlp_shift_targets,
                "give the decoder the target without its last token and ask for it without its first, as FedNLP does");
}

Seq2SeqTask::Seq2SeqTask(const Seq2SeqConfig& config, const TaskInput& input)
    : Task("seq2seq", input), config_(config) {
  input_.labels.clear();
}

std::string Seq2SeqTask::encoding_key() const {
  return fmt::format("max_length={} target={} prefix={}", config_.max_length, config_.max_target_length,
                     config_.source_prefix);
}

void Seq2SeqTask::encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const {
  TextRows sources(tokenizer(), config_.max_length);
  TextRows targets(tokenizer(), config_.max_target_length);
  std::string prefixed;
  for (const std::uint32_t example : examples) {
    const std::size_t begin = out.ids.size(), target_begin = out.target_ids.size();
    std::string_view source = data.text(example);
    if (!config_.source_prefix.empty()) source = prefixed = config_.source_prefix + std::string(source);
    if (sources.append(source, out.ids)) out.count(EncodeCount::kTruncated);
    if (out.ids.size() == begin) out.ids.push_back(filler());
    targets.append(data.second(example), out.target_ids);
    if (out.target_ids.size() == target_begin) out.target_ids.push_back(filler());
    out.end_target();
    out.end_row();
    out.end_example(example);
  }
}

TaskBatch Seq2SeqTask::collate(std::span<const ClientRows> cohort, const CollateOptions& options) const {
  if (!input_.model) throw ConfigError("seq2seq needs the model's configuration, for the decoder's start token");
  const auto start = input_.model->token("decoder_start_token_id");
  if (!start) {
    throw DataError(fmt::format("{}: the key 'decoder_start_token_id' is missing", input_.model->origin()));
  }
  TaskBatch batch = pack_rows(cohort, options.device);
  std::vector<std::vector<std::int64_t>> lengths;
  for (const ClientRows& client : cohort) {
    auto& list = lengths.emplace_back();
    for (const std::uint32_t row : client.rows) {
      const auto size = static_cast<std::int64_t>(client.data->target_ids(row).size());
      list.push_back(config_.fednlp_shift_targets ? std::max<std::int64_t>(size - 1, 1) : size);
    }
  }
  const auto packing = std::make_shared<Packing>(lengths, options.device);
  const std::vector<std::int64_t> shape{packing->clients(), packing->tokens()};
  at::Tensor inputs = torch::zeros(shape, at::kLong);
  at::Tensor labels = torch::full(shape, kIgnore, at::kLong);
  for (std::size_t c = 0; c < cohort.size(); ++c) {
    std::int64_t* input = inputs.data_ptr<std::int64_t>() + static_cast<std::int64_t>(c) * packing->tokens();
    std::int64_t* label = labels.data_ptr<std::int64_t>() + static_cast<std::int64_t>(c) * packing->tokens();
    for (const std::uint32_t row : cohort[c].rows) {
      const auto target = cohort[c].data->target_ids(row);
      if (config_.fednlp_shift_targets) {
        *input++ = target[0];
        if (target.size() < 2) ++label;
        for (std::size_t i = 1; i < target.size(); ++i) {
          *label++ = target[i];
          if (i + 1 < target.size()) *input++ = target[i];
        }
        continue;
      }
      *input++ = *start;
      for (std::size_t i = 0; i < target.size(); ++i) {
        *label++ = target[i];
        if (i + 1 < target.size()) *input++ = target[i];
      }
    }
  }
  batch.batch.target_packing = packing;
  batch.batch.target_ids = sent_to(options.device, inputs);
  batch.labels = sent_to(options.device, labels);
  batch.counted = count_labels(batch.labels);
  return batch;
}

at::Tensor Seq2SeqTask::loss(const Output& output, const TaskBatch& batch) const {
  return cross_entropy(output.logits, batch.labels);
}

std::vector<Prediction> Seq2SeqTask::decode(const Output& output, const TaskBatch& batch, const Dataset&) const {
  check(batch.rows.size() == 1, "answers are decoded for one client at a time");
  const at::Tensor best = output.logits.detach().argmax(-1).to(at::kCPU).contiguous();
  const std::int64_t* next = best.data_ptr<std::int64_t>();
  std::vector<Prediction> result;
  for (std::size_t b = 0; b < batch.rows[0].size(); ++b) {
    const std::int64_t length = batch.batch.target_packing->lengths()[0][b];
    result.push_back({.example = batch.data[0]->example_of(batch.rows[0][b])});
    result.back().text = text_of(tokenizer(), next, next + length);
    next += length;
  }
  return result;
}

std::vector<Prediction> Seq2SeqTask::predict(const Model& model, const Params& params, const Output&,
                                             const TaskBatch& batch, const Dataset&) const {
  const auto* generative = dynamic_cast<const GenerativeModel*>(&model);
  if (generative == nullptr) throw ConfigError("seq2seq needs a model that generates (BART, T5)");
  GenerationOptions options = GenerationOptions::of(input_.model.value_or(model.config()));
  if (config_.beams) options.beams = *config_.beams;
  options.max_new_tokens = config_.max_new_tokens.value_or(config_.max_target_length);
  if (model.max_length() > 0) options.max_new_tokens = std::min(options.max_new_tokens, model.max_length() - 1);
  options.min_new_tokens = std::min(options.min_new_tokens, options.max_new_tokens);
  const auto texts = generate(*generative, params, batch.batch, options);
  std::vector<Prediction> result;
  for (std::size_t b = 0; b < batch.rows[0].size(); ++b) {
    result.push_back({.example = batch.data[0]->example_of(batch.rows[0][b])});
    result.back().text = text_of(tokenizer(), texts[b].data(), texts[b].data() + texts[b].size());
  }
  return result;
}

void Seq2SeqTask::write(const Prediction& prediction, const Dataset&, nlohmann::json& line) const {
  line["text"] = prediction.text;
}

std::unique_ptr<Metric> Seq2SeqTask::metric(Keep keep) const { return std::make_unique<Rouge>(config_.stem, keep); }

void Seq2SeqTask::score(const Prediction& prediction, const Dataset& data, Metric& metric) const {
  const Example example = data.at(prediction.example);
  std::vector<std::string> references{std::string(example.second)};
  for (std::size_t i = 0; i < example.answers.size(); ++i) references.emplace_back(example.answers[i].text);
  dynamic_cast<Rouge&>(metric).add(prediction.text, references);
}

}  // namespace chorus::inline tasks
