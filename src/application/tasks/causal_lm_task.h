#pragma once

#include "application/tasks/language_task.h"

namespace chorus::inline tasks {

struct CausalLmConfig {
  std::int64_t max_length = 256;  ///< tokens of a text; the rest is cut (not with blocks)
  bool add_bos = false;           ///< begin every text with the tokenizer's first token, so that its first word counts
  bool add_eos = true;            ///< end every text with the tokenizer's end token
  /// 0: a row is a text. Else a client's texts are joined, in their order, and cut into rows of so many tokens (the
  /// last one shorter): no token is lost and rows are alike.
  std::int64_t block_length = 0;

  void describe(ConfigVisitor& visitor);
};

/// Predict each token from those before it. Name: causal_lm.
class CausalLmTask : public LanguageTask {
 public:
  CausalLmTask(const CausalLmConfig& config, const TaskInput& input);

  Head head() const override { return Head::kCausalLm; }
  std::int64_t max_length() const override { return blocks() ? config_.block_length : config_.max_length; }
  std::string encoding_key() const override;
  void encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const override;
  /// With blocks: encoded data of its own, made of this client's texts only. Its examples are the blocks.
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
