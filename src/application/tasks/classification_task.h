#pragma once

#include "application/tasks/task.h"

namespace chorus::inline tasks {

struct ClassificationConfig {
  std::int64_t max_length = 256;  ///< tokens per row, including special ones
  /// FedNLP gives its classifiers no attention mask: texts are padded to max_length with pad tokens that are read like
  /// any other.
  bool fednlp_attend_padding = false;

  void describe(ConfigVisitor& visitor);
};

/// One text, or a pair of texts, to a class (cross-entropy; accuracy, F1, Matthews) or to a number (squared error;
/// Pearson, Spearman). A row is [CLS] text [SEP], or [CLS] text [SEP] second [SEP], by the tokenizer's template; a pair
/// that is too long loses tokens of its longer text first. Names: text_classification, pair_classification,
/// pair_regression.
class ClassificationTask : public Task {
 public:
  ClassificationTask(const ClassificationConfig& config, Formulation formulation, const TaskInput& input);

  Head head() const override { return Head::kSequenceClassification; }
  std::int64_t outputs() const override { return regression() ? 1 : Task::outputs(); }
  MainScore main_score() const override { return {regression() ? "correlation" : "accuracy"}; }
  std::int64_t max_length() const override { return config_.max_length; }
  bool reads(Formulation formulation) const override { return formulation == formulation_; }
  std::string encoding_key() const override;
  void encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const override;
  TaskBatch collate(std::span<const ClientRows> cohort, const CollateOptions& options) const override;
  at::Tensor loss(const Output& output, const TaskBatch& batch) const override;
  std::vector<Prediction> decode(const Output& output, const TaskBatch& batch, const Dataset& data) const override;
  void write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const override;
  std::unique_ptr<Metric> metric(Keep keep) const override;
  void score(const Prediction& prediction, const Dataset& data, Metric& metric) const override;

 private:
  bool regression() const { return formulation_ == Formulation::kPairRegression; }

  ClassificationConfig config_;
  Formulation formulation_;
};

}  // namespace chorus::inline tasks
