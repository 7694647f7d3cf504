#pragma once

#include "application/tasks/task.h"

namespace chorus::inline tasks {

struct TaggingConfig {
  std::int64_t max_length = 128;  ///< tokens per sentence, including special ones
  /// All pieces of a word carry its tag (later pieces of a B- word its I- tag), not only the first one.
  bool label_all_pieces = false;
  bool strict = false;  ///< score with seqeval's strict IOB2 mode instead of its default
  /// FedNLP does not score words that were truncated or have no token; otherwise they count as tagged O.
  bool fednlp_drop_lost_words = false;
  /// See ClassificationConfig.
  bool fednlp_attend_padding = false;

  void describe(ConfigVisitor& visitor);
};

/// Words to tags. The first piece of a word carries its tag; other pieces and special tokens have no label. The
/// prediction for a word is the best tag of its first piece; a word without one (truncated by max_length, or made of
/// characters that the tokenizer drops) is tagged "O" and counted in EncodeCount::kLostWords. Scored by entities
/// (seqeval). Name: seq_tagging.
class TaggingTask : public Task {
 public:
  TaggingTask(const TaggingConfig& config, const TaskInput& input);

  Head head() const override { return Head::kTokenClassification; }
  MainScore main_score() const override { return {"f1"}; }
  std::int64_t max_length() const override { return config_.max_length; }
  bool reads(Formulation formulation) const override { return formulation == Formulation::kSequenceTagging; }
  std::string encoding_key() const override;
  void encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const override;
  TaskBatch collate(std::span<const ClientRows> cohort, const CollateOptions& options) const override;
  at::Tensor loss(const Output& output, const TaskBatch& batch) const override;
  std::vector<Prediction> decode(const Output& output, const TaskBatch& batch, const Dataset& data) const override;
  void write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const override;
  std::unique_ptr<Metric> metric(Keep keep) const override;
  void score(const Prediction& prediction, const Dataset& data, Metric& metric) const override;

 private:
  TaggingConfig config_;
  std::vector<std::int32_t> inside_;  // by tag: the tag of a word's later pieces
};

}  // namespace chorus::inline tasks
