#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "application/data/dataset.h"
#include "application/metrics/metric.h"
#include "application/models/model.h"
#include "application/tasks/encoded_dataset.h"
#include "application/tasks/task_batch.h"
#include "application/text/tokenizer.h"
#include "core/config/registry.h"

namespace chorus::inline tasks {

/// What a task is made from.
struct TaskInput {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> labels = {};   ///< classes or tags, in the order of the model's outputs
  std::optional<ModelConfig> model = {};  ///< seq2seq: the decoder's start token, generation settings

  /// With the data's own classes or tags as labels.
  static TaskInput of(const Dataset& data, std::shared_ptr<const Tokenizer> tokenizer);
};

/// A candidate answer to a question.
struct SpanAnswer {
  std::string text;
  std::uint32_t begin = 0, end = 0;  ///< code points of the context; both 0 for "no answer"
  double score = 0;                  ///< logit of the start plus logit of the end
  double probability = 0;            ///< among the candidates
};

/// A model's prediction for one example; each task fills its own members.
struct Prediction {
  std::uint32_t example = 0;
  std::int32_t label = -1;
  double probability = 0;  ///< of the label
  double score = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::int32_t> tags = {};   ///< one per word; -1 for a word that the model has not seen, read as "O"
  std::string text = {};                 ///< the answer; the generated text
  std::vector<SpanAnswer> answers = {};  ///< QA: best first
  double loss = 0;                       ///< language models: summed negative log-likelihood
  double tokens = 0;                     ///< of this many tokens
};

/// The headline score of a task.
struct MainScore {
  std::string name;  ///< one of the metric's: "accuracy", "perplexity"
  bool higher_is_better = true;
};

/// One problem, from text to score: which head the model needs, how examples become tokens and batches, the loss, how
/// logits become predictions and how these are scored. Nothing else in Chorus distinguishes tasks: a new task is a pair
/// of files and a Registration. Immutable and thread-safe.
///
///     const auto task = Tasks::make("text_classification", TaskInput::of(data, tokenizer));
///     const auto train = encode_split(*task, data, Split::kTrain).data;
///     TaskBatch batch = task->collate({{{train.get(), rows}}}, {.seed = 1});
///     at::Tensor loss = task->loss(model->forward(params, batch.batch, dropout), batch);     // [C]
class Task {
 public:
  static constexpr std::string_view kKind = "task";

  Task(std::string name, TaskInput input);
  virtual ~Task() = default;

  const std::string& name() const { return name_; }
  const std::vector<std::string>& labels() const { return input_.labels; }
  const Tokenizer& tokenizer() const { return *input_.tokenizer; }

  virtual Head head() const = 0;
  /// Number of outputs of the head; 0: the head decides.
  virtual std::int64_t outputs() const { return static_cast<std::int64_t>(labels().size()); }
  /// Names of the head's outputs in config.json: the labels, or LABEL_0, ... for outputs without names (Hugging Face's
  /// num_labels = 1 of a regression). Empty if the head decides.
  std::vector<std::string> head_labels() const;
  virtual MainScore main_score() const = 0;
  /// Whether a row's tokens differ between passes (masked LM), so that nothing computed from them can be cached.
  virtual bool rows_change() const { return false; }
  /// Maximum tokens per row.
  virtual std::int64_t max_length() const = 0;
  virtual bool reads(Formulation formulation) const = 0;

  /// Every option that affects `encode`, as text: part of cache keys.
  virtual std::string encoding_key() const = 0;
  /// Appends the given examples, in order. DataError for one that does not fit the task.
  virtual void encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const = 0;
  /// The training rows of a client that holds these examples.
  virtual ClientData client_data(std::shared_ptr<const EncodedDataset> encoded,
                                 std::span<const std::uint32_t> examples) const;

  virtual TaskBatch collate(std::span<const ClientRows> cohort, const CollateOptions& options = {}) const = 0;
  /// [C]: each client's mean over batch.counted labels.
  virtual at::Tensor loss(const Output& output, const TaskBatch& batch) const = 0;

  /// The predictions for the examples of a batch with C = 1, which holds all rows of each example consecutively. In the
  /// order of the batch.
  virtual std::vector<Prediction> decode(const Output& output, const TaskBatch& batch, const Dataset& data) const = 0;
  /// Like decode, for tasks that need more than one forward pass (generation).
  virtual std::vector<Prediction> predict(const Model& model, const Params& params, const Output& output,
                                          const TaskBatch& batch, const Dataset& data) const;

  /// Adds a prediction to a line of JSON, under the keys that `chorus score` reads.
  virtual void write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const = 0;

  /// An empty metric for `score`.
  virtual std::unique_ptr<Metric> metric(Keep keep = Keep::kTotals) const = 0;
  /// Scores one prediction against its example's gold. An example without gold is skipped.
  virtual void score(const Prediction& prediction, const Dataset& data, Metric& metric) const = 0;

  /// ConfigError if the model has another head, other labels or another order of them, or is too short for the rows;
  /// DataError if the tokenizer does not belong to it.
  void check_model(const Model& model) const;
  EncodedLimits limits() const;

 protected:
  /// For each id in the dataset's table, the index in `labels()`, or -1.
  std::vector<std::int32_t> label_map(const StringTable& names) const;
  [[noreturn]] void unknown_label(const Dataset& data, std::uint32_t example, std::string_view label) const;
  /// A token for empty texts, because a model cannot read an empty sequence.
  std::int32_t filler() const;
  /// The examples of a batch with C = 1, as ranges [first, second) of its sequences.
  static std::vector<std::pair<std::size_t, std::size_t>> examples_in(const TaskBatch& batch);

  TaskInput input_;

 private:
  std::string name_;
};

using Tasks = Registry<Task, const TaskInput&>;

/// Whether a higher score is better: for the main score the task decides; false for losses and perplexities.
bool higher_is_better(const Task& task, const std::string& score);

/// The task for such data and such a head, with default options. ConfigError if there is none, or several.
std::string task_for(Head head, Formulation formulation, const TaskInput& input);

}  // namespace chorus::inline tasks
