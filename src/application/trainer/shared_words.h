#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/dataset.h"
#include "application/tasks/task.h"
#include "application/trainer/train_client.h"

namespace chorus::inline trainer {

/// Predictions of language models that do not depend on the tokenizer, so that networks with different vocabularies
/// learn from each other on public texts. FedMKT (Fan et al. 2024) aligns the tokens of two tokenizers pairwise, by
/// edit distance, and maps top-k logits from token to token. Here the spans of the text itself are common ground, so
/// any number of networks can be averaged and no vocabulary travels:
///
///   where   a prediction belongs to a word between spaces. A causal model predicts it from the text before it: every
///           word but a text's first. From a masked model it is hidden with all its tokens: 15 % of a text's words, at
///           least one; which ones depends on the row alone.
///   what    how the word begins: the letters and digits at its beginning in lower case, or a single other character.
///           Class c of K is one of the most frequent beginnings in the public texts; class 0 is any other.
///
/// With p the distribution of the word's first token and a(t, c) the share of class c among the public words whose
/// first token is t (a(t, 0) = 1 for a token that begins none), the prediction is
///
///     log q,   q_c = sum_t p_t a(t, c)
///
/// so that softmax(log q) = q. The filter `top_answers` sends the k most probable classes and a residual.
class SharedWords {
 public:
  /// What a network reads: `set` are rows of `data`, one per text. Borrowed while it is made.
  struct Input {
    const Task& task;  ///< causal_lm without blocks, or masked_lm
    const Dataset& data;
    const ClientData& set;
    std::int64_t classes = 1000;  ///< K; if the texts have fewer, the last ones have no probability
    at::Device device = at::kCPU;
  };
  /// DataError if the rows are not encodings of the texts.
  explicit SharedWords(const Input& input);

  std::int64_t classes() const { return static_cast<std::int64_t>(names_.size()); }
  /// What class c stands for; "" for class 0.
  const std::string& name(std::int64_t c) const { return names_.at(static_cast<std::size_t>(c)); }
  /// Number of predictions per row.
  std::vector<std::int64_t> counts() const;

  /// What a network answers for in a batch: the first tokens of the words, or all tokens that the task would ask for
  /// (of a masked model, those of the hidden words).
  enum class Ask { kBeginnings, kTokens };
  /// The batch in which all clients read the same rows of the public set. Its labels are the tokens asked for. With
  /// kTokens, TaskBatch::fields has the columns [C, n] of the first tokens in the logits.
  TaskBatch collate(std::span<const ClientRows> cohort, std::span<const std::uint32_t> rows, at::Device device,
                    Ask ask = Ask::kBeginnings) const;
  /// The logits [C, n, V] of the words' first tokens in the logits of such a batch.
  static at::Tensor beginnings(const TaskBatch& batch, const at::Tensor& logits);

  /// log q [C, n, K] from logits [C, n, V] (see above); differentiable.
  at::Tensor predictions(const at::Tensor& logits) const;

 private:
  /// The tokens [first, end) of a word in its row.
  struct Place {
    std::uint32_t first = 0, end = 0;
  };

  void find_classes(const std::vector<std::vector<std::string>>& begins, std::int64_t most);

  bool masked_;
  std::int64_t mask_ = 0;                   // the id that hides a token
  std::vector<std::string> names_;          // of the classes
  std::vector<std::vector<Place>> places_;  // per row, of the words that are predicted
  at::Tensor tokens_;                       // int64 [B]: those that begin words
  at::Tensor shares_;                       // float [B, K]: a(t, c) of these
};

/// A word between spaces: code points [begin, end) of its text, and how it begins.
struct TextWord {
  std::uint32_t begin = 0, end = 0;
  std::string beginning;
};
std::vector<TextWord> words_of(std::string_view text);

}  // namespace chorus::inline trainer
