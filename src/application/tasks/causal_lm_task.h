#pragma once

#include "application/tasks/language_task.h"

namespace chorus::inline tasks {

struct CausalLmConfig {
  std::int64_t max_length = 256;  ///< tokens per text; the rest is truncated (not with blocks)
  bool add_bos = false;           ///< start texts with the tokenizer's first token, so that the first word is predicted
  bool add_eos = true;            ///< end every text with the tokenizer's end token
  /// 0: a row is a text. Otherwise a client's texts are concatenated in order and cut into rows of this many tokens
  /// (the last one shorter): no token is lost, and rows have equal length.
  std::int64_t block_length = 0;

  void describe(ConfigVisitor& visitor);
};

/// Predicts each token from those before it. Name: causal_lm.
class CausalLmTask : public LanguageTask {
 public:
  CausalLmTask(const CausalLmConfig& config, const TaskInput& input);

  Head head() const override { return Head::kCausalLm; }
  std::int64_t max_length() const override { return blocks() ? config_.block_length : config_.max_length; }
  std::string encoding_key() const override;
  void encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const override;
  /// With blocks: separate encoded data, from this client's texts only. Its examples are the blocks.
  ClientData client_data(std::shared_ptr<const EncodedDataset> encoded,
                         std::span<const std::uint32_t> examples) const override;
  TaskBatch collate(std::span<const ClientRows> cohort, const CollateOptions& options) const override;

 protected:
  at::Tensor owner_of_labels(const TaskBatch& batch) const override { return batch.batch.packing->owner(); }

 private:
  bool blocks() const { return config_.block_length > 0; }

  CausalLmConfig config_;
};

}  // namespace chorus::inline tasks
