#pragma once

#include "application/tasks/task.h"

namespace chorus::inline tasks {

struct Seq2SeqConfig {
  std::int64_t max_length = 256;                    ///< tokens of the source
  std::int64_t max_target_length = 128;             ///< tokens of the target
  std::string source_prefix = {};                   ///< prepended to every source ("summarize: " for T5)
  std::optional<std::int64_t> beams = {};           ///< unset: from the model's folder
  std::optional<std::int64_t> max_new_tokens = {};  ///< unset: max_target_length
  bool stem = false;                                ///< ROUGE over stemmed words
  /// FedNLP gives the decoder target[:-1] and predicts target[1:]. Otherwise the decoder reads its start token first
  /// and predicts the whole target, as the models were trained.
  bool fednlp_shift_targets = false;

  void describe(ConfigVisitor& visitor);
};

/// Maps a text to another text (summaries, headlines, translation) with an encoder-decoder. Loss: cross-entropy of the
/// target with teacher forcing. The output is generated (models/generation.h) and scored by ROUGE against all
/// references. Collating needs TaskInput::model. Name: seq2seq.
class Seq2SeqTask : public Task {
 public:
  Seq2SeqTask(const Seq2SeqConfig& config, const TaskInput& input);

  Head head() const override { return Head::kSeq2Seq; }
  std::int64_t outputs() const override { return 0; }
  MainScore main_score() const override { return {"rougeL"}; }
  std::int64_t max_length() const override { return std::max(config_.max_length, config_.max_target_length); }
  bool reads(Formulation formulation) const override { return formulation == Formulation::kSeq2Seq; }
  std::string encoding_key() const override;
  void encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const override;
  TaskBatch collate(std::span<const ClientRows> cohort, const CollateOptions& options) const override;
  at::Tensor loss(const Output& output, const TaskBatch& batch) const override;
  /// The best next token at each position of the gold target: cheap, but not what the model would generate.
  std::vector<Prediction> decode(const Output& output, const TaskBatch& batch, const Dataset& data) const override;
  /// Generates the texts.
  std::vector<Prediction> predict(const Model& model, const Params& params, const Output& output,
                                  const TaskBatch& batch, const Dataset& data) const override;
  void write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const override;
  std::unique_ptr<Metric> metric(Keep keep) const override;
  void score(const Prediction& prediction, const Dataset& data, Metric& metric) const override;

 private:
  Seq2SeqConfig config_;
};

}  // namespace chorus::inline tasks
