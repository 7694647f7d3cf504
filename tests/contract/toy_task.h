#pragma once

#include "application/metrics/metric.h"
#include "application/tasks/task.h"

namespace chorus::inline contract {

struct ToyConfig {
  std::int64_t max_length = 64;
  double length_weight = 1;  ///< weight of the length in the loss

  void describe(ConfigVisitor& visitor);
};

/// A task that nothing else in Chorus knows, to show that a task with its own head, loss and metric is one pair of
/// files: the topic of a text and the logarithm of its length, both from one head. Name: toy_topic_and_length.
class ToyTask : public Task {
 public:
  ToyTask(const ToyConfig& config, const TaskInput& input);

  Head head() const override;
  MainScore main_score() const override { return {"length_error", false}; }
  std::int64_t max_length() const override { return config_.max_length; }
  bool reads(Formulation formulation) const override { return formulation == Formulation::kTextClassification; }
  std::string encoding_key() const override;
  void encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const override;
  TaskBatch collate(std::span<const ClientRows> cohort, const CollateOptions& options) const override;
  at::Tensor loss(const Output& output, const TaskBatch& batch) const override;
  std::vector<Prediction> decode(const Output& output, const TaskBatch& batch, const Dataset& data) const override;
  void write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const override;
  std::unique_ptr<Metric> metric(Keep keep) const override;
  void score(const Prediction& prediction, const Dataset& data, Metric& metric) const override;

 private:
  ToyConfig config_;
};

}  // namespace chorus::inline contract
