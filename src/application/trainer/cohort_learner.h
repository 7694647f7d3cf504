#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "application/trainer/local_training.h"
#include "application/trainer/public_rows.h"
#include "core/ports/learner.h"

namespace chorus::inline trainer {

/// The Learner of a cohort: open-ended local training, and steps on rows of the public set.
///
///     CohortLearner learner(std::move(training), public_set);
class CohortLearner final : public Learner {
 public:
  /// The training's store must own its values. `public_set` may be null. `early`: on a GPU, the optimizer runs during
  /// the backward pass of `fit` (early_step.h).
  CohortLearner(std::unique_ptr<LocalTraining> training, std::shared_ptr<const PublicTexts> public_set, bool early);

  LearnResult train(std::int64_t steps) override;
  LearnResult fit(std::span<const std::uint32_t> rows, const Targets& targets,
                  const std::function<void()>& meanwhile) override;
  at::Tensor predict(std::span<const std::uint32_t> rows) override;
  at::Tensor predict_with_dropout(std::span<const std::uint32_t> rows) override;
  void read_ahead(std::span<const std::uint32_t> rows) override;
  ProbeResult probe(std::int64_t number, const ProbeWish& wish) override;
  at::Tensor curvature(std::int64_t number, const at::Tensor& direction) override;
  void renew(std::int64_t steps) override { training_->renew(steps); }
  at::Tensor values() const override { return training_->store().params().values(); }
  void set_values(const at::Tensor& values) override;
  void retain(std::span<const std::size_t> clients) override;

 private:
  std::span<const TrainClient> clients() const { return training_->input().clients; }
  /// What a batch of the public set is for; a difference for language models alone.
  enum class Use { kPredictions, kLabels, kBoth };
  struct PublicBatch {
    std::span<const std::uint32_t> rows;
    Use use = Use::kPredictions;
  };
  /// The keys of random draws.
  struct Draws {
    std::int64_t number = 0;
    const char* purpose = "";
  };
  /// These rows for all clients. A batch that was just read is used again: interactive methods predict and then learn
  /// the same rows.
  Reading read_public(const PublicBatch& what, const Draws& draws);

  std::unique_ptr<LocalTraining> training_;
  std::shared_ptr<const PublicTexts> public_set_;
  bool early_;
  std::int64_t fits_ = 0, predictions_ = 0, probes_ = 0;  // keys of their random draws
  std::vector<std::uint32_t> read_rows_;                  // of the last batch of the public set
  Use read_use_ = Use::kPredictions;                      // of that batch
  std::optional<TaskBatch> read_batch_;
  std::int64_t probed_number_ = -1;  // of the last batch that was probed
  std::optional<TaskBatch> probed_batch_;
};

}  // namespace chorus::inline trainer
