#pragma once

#include "application/tasks/language_task.h"
#include "application/tasks/masking.h"

namespace chorus::inline tasks {

struct MaskedLmConfig {
  std::int64_t max_length = 256;  ///< tokens per text, including special ones
  double mask_probability = 0.15;
  double masked = 0.8;    ///< of the chosen tokens: become the mask token
  double replaced = 0.1;  ///< of the chosen tokens: become a random one; the rest is unchanged

  void describe(ConfigVisitor& visitor);
};

/// Predicts masked tokens (masking.h). Which tokens are masked depends only on (seed, round, epoch, client, example),
/// so a batch does not depend on how it is put together. Only the chosen tokens go through the model's head
/// (Batch::wanted). Name: masked_lm.
class MaskedLmTask : public LanguageTask {
 public:
  MaskedLmTask(const MaskedLmConfig& config, const TaskInput& input);

  Head head() const override { return Head::kMaskedLm; }
  bool rows_change() const override { return true; }
  std::int64_t max_length() const override { return config_.max_length; }
  std::string encoding_key() const override;
  void encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const override;
  TaskBatch collate(std::span<const ClientRows> cohort, const CollateOptions& options) const override;

 protected:
  at::Tensor owner_of_labels(const TaskBatch& batch) const override;

 private:
  MaskedLmConfig config_;
  Masking masking_;
};

}  // namespace chorus::inline tasks
