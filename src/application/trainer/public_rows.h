#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "application/trainer/shared_words.h"
#include "application/trainer/train_client.h"
#include "core/ports/learner.h"

namespace chorus::inline trainer {

/// Predictions for rows of the public set, and losses against given targets (FedMD, FedID, FedDF). A row is an index
/// into ClientData::rows of the public set.

/// The public set as a network reads it.
struct PublicTexts : ClientData {
  std::shared_ptr<const SharedWords> words = {};  ///< what language models predict; null: every token
  /// Questions: 1 + the most words in the context of a row.
  std::int64_t choices = 0;
};
/// What a network of this task answers for. `set`: rows of the encoded `texts`; null: no shared words.
struct PublicTextsInput {
  const Task& task;
  ClientData set;
  const Dataset* texts = nullptr;
  std::int64_t words = 0;  ///< classes of SharedWords
  at::Device device = at::kCPU;
};
/// Leaves out texts without a word that a language model could predict. DataError if none is left.
std::shared_ptr<const PublicTexts> public_texts(const PublicTextsInput& input);

/// The same rows for each of these clients. `chosen` receives their rows in the data and must outlive the result.
std::vector<ClientRows> public_cohort(const ClientData& set, std::span<const std::uint32_t> rows,
                                      std::span<const TrainClient> clients, std::vector<std::uint32_t>& chosen);

/// A word of a question's context: its tokens [first, last] in the row, and its first character.
struct ContextWord {
  std::int64_t first = 0, last = 0;
  std::uint32_t begin = 0;
};
/// The words between spaces in the context of a row, by the tokens' characters. They do not depend on the tokenizer if
/// the row has the whole context.
std::vector<ContextWord> context_words(const EncodedDataset& data, std::uint32_t row);

/// Number of predictions per row of a public set; empty: one each. For tagging: words whose first piece the model
/// reads. For extractive question answering: two, the start and the end of the answer, each with one logit per word of
/// the context: logit 0 is the sequence's first token ("no answer"), then the words, then for shorter contexts logits
/// that mean nothing (30 below the highest). For language models: words (shared_words.h).
std::vector<std::int64_t> answer_counts(const Model& model, const PublicTexts& set);

/// Logits [C, n, K] of these rows for each client of `params`, without dropout and gradients (Learner::predict).
/// ConfigError for a head without a fixed number of outputs per row.
at::Tensor predict_rows(const TrainerInput& trainer, const Params& params, const PublicTexts& set,
                        std::span<const std::uint32_t> rows);

/// The predictions [C, n, K] in the logits of a batch in which all clients read the same rows. ConfigError as above.
at::Tensor answers_of(const TrainerInput& trainer, const PublicTexts& set, const TaskBatch& batch,
                      const at::Tensor& logits);
/// Whether these and `target_loss` need only the batch's tensors on the device, not its rows.
bool on_device(const TrainerInput& trainer, const PublicTexts& set);

/// Whether there are any targets.
bool given(const Targets& targets);
/// ConfigError if outputs of the model's head cannot be compared with such targets.
void check_targets(const TrainerInput& trainer, const PublicTexts& set, const Targets& targets);
/// The loss [C] of a model's output against the targets (learner.h); without targets, against the batch's own labels.
/// With targets, the batch must be read without Batch::answers unless Targets::own is 1.
at::Tensor target_loss(const TrainerInput& trainer, const PublicTexts& set, const Output& output,
                       const TaskBatch& batch, const Targets& targets);

}  // namespace chorus::inline trainer
