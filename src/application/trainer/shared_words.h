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
  /// Drops texts that are a single word, or whose hidden words were cut off. Returns the other ones of `rows`, which
  /// are those of Input::set. DataError if none is left.
  std::vector<std::uint32_t> keep_predicted(const std::vector<std::uint32_t>& rows);

  /// The batch whose logits are those of the words' first tokens, [C, n, V], all clients reading the same rows of the
  /// public set. Its labels are the first tokens.
  TaskBatch collate(std::span<const ClientRows> cohort, std::span<const std::uint32_t> rows, at::Device device) const;
  /// Adds these predictions to a batch that the task has made of the same rows; its labels stay those of the task. A
  /// masked model then sees neither these words nor the tokens that the task hides. TaskBatch::fields gets the columns
  /// [C, n] of the words' first tokens in the logits.
  void add_to(TaskBatch& batch, std::span<const std::uint32_t> rows) const;
  /// The logits [C, n, V] of the words' first tokens in the logits of either batch.
  static at::Tensor beginnings(const TaskBatch& batch, const at::Tensor& logits);

  /// log q [C, n, K] from logits [C, n, V] (see above); differentiable.
  at::Tensor predictions(const at::Tensor& logits) const;

 private:
  /// The tokens [first, end) of a word in its row.
  struct Place {
    std::uint32_t first = 0, end = 0;
  };

  /// The tokens that the words of these rows are predicted from, as columns of a batch with one row after the other.
  std::vector<std::int64_t> columns_in(const TaskBatch& batch, std::span<const std::uint32_t> rows) const;
  /// Hides the words from a masked model.
  void hide_in(TaskBatch& batch, std::span<const std::uint32_t> rows) const;
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
