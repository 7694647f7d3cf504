#pragma once

#include "application/tasks/task.h"

namespace chorus::inline tasks {

struct SpanConfig {
  std::int64_t max_length = 384;        ///< tokens per window
  std::int64_t doc_stride = 128;        ///< tokens between the starts of two windows
  std::int64_t max_query_length = 64;   ///< tokens of the question; the rest is truncated
  std::int64_t n_best = 20;             ///< candidate starts and ends per window, and answers kept
  std::int64_t max_answer_length = 30;  ///< tokens of an answer
  bool ask_cls = true;             ///< windows without the answer are trained to point at [CLS]; else they are left out
  bool no_answer = false;          ///< the model may answer nothing (SQuAD v2.0; FedNLP always allows it)
  double no_answer_threshold = 0;  ///< answer nothing if [CLS] beats the best span by more than this
  /// FedNLP's doc_stride is 384 although a window holds 128 tokens: most of the context is never seen.
  bool fednlp_skip_tokens = false;

  void describe(ConfigVisitor& visitor);
};

/// Extractive question answering: which part of the context answers the question (SQuAD, MRQA). A long context is read
/// in windows (span_windows.h). A candidate is a start and an end token of one window's context, in order and not too
/// far apart; its score is the sum of the two logits. The best candidate over all windows is the answer, returned as
/// characters of the original text. Scored by exact match and F1 over all golds. Name: span_extraction.
class SpanTask : public Task {
 public:
  SpanTask(const SpanConfig& config, const TaskInput& input);

  Head head() const override { return Head::kQuestionAnswering; }
  std::int64_t outputs() const override { return 0; }
  MainScore main_score() const override { return {"f1"}; }
  std::int64_t max_length() const override { return config_.max_length; }
  bool reads(Formulation formulation) const override { return formulation == Formulation::kSpanExtraction; }
  std::string encoding_key() const override;
  void encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const override;
  TaskBatch collate(std::span<const ClientRows> cohort, const CollateOptions& options) const override;
  at::Tensor loss(const Output& output, const TaskBatch& batch) const override;
  std::vector<Prediction> decode(const Output& output, const TaskBatch& batch, const Dataset& data) const override;
  void write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const override;
  std::unique_ptr<Metric> metric(Keep keep) const override;
  void score(const Prediction& prediction, const Dataset& data, Metric& metric) const override;

 private:
  SpanConfig config_;
};

}  // namespace chorus::inline tasks
