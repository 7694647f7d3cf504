#pragma once

#include "application/tasks/task.h"

namespace chorus::inline tasks {

/// Shared by causal and masked language models: any text is data, there are no labels, and the score is the perplexity
/// of the predicted tokens (batch.labels).
class LanguageTask : public Task {
 public:
  LanguageTask(std::string name, const TaskInput& input);

  std::int64_t outputs() const override { return 0; }
  MainScore main_score() const override { return {"perplexity", false}; }
  bool reads(Formulation formulation) const override { return formulation != Formulation::kSequenceTagging; }
  at::Tensor loss(const Output& output, const TaskBatch& batch) const override;
  /// Prediction::loss and tokens of each row; rows of one example are summed.
  std::vector<Prediction> decode(const Output& output, const TaskBatch& batch, const Dataset& data) const override;
  void write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const override;
  std::unique_ptr<Metric> metric(Keep keep) const override;
  void score(const Prediction& prediction, const Dataset& data, Metric& metric) const override;

 protected:
  /// The index of each label's sequence in its client, [C, M].
  virtual at::Tensor owner_of_labels(const TaskBatch& batch) const = 0;
};

}  // namespace chorus::inline tasks
