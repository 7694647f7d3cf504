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

/// What a task is made for.
struct TaskInput {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> labels = {};   ///< classes or tags, in the order of the model's head
  std::optional<ModelConfig> model = {};  ///< seq2seq: the decoder's start token, how to generate

  /// The labels are the data's own classes or tags.
  static TaskInput of(const Dataset& data, std::shared_ptr<const Tokenizer> tokenizer);
};

/// A possible answer to a question.
struct SpanAnswer {
  std::string text;
  std::uint32_t begin = 0, end = 0;  ///< code points of the context; both 0 for "no answer"
  double score = 0;                  ///< logit of the start plus logit of the end
  double probability = 0;            ///< among the candidates
};

/// What a model answered for one example; a task fills its own members.
struct Prediction {
  std::uint32_t example = 0;
  std::int32_t label = -1;
  double probability = 0;  ///< of the label
  double score = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::int32_t> tags = {};   ///< one per word; -1 for a word the model has not seen, which reads as "O"
  std::string text = {};                 ///< the answer; the generated text
  std::vector<SpanAnswer> answers = {};  ///< QA: the best first
  double loss = 0;                       ///< language models: summed negative log-likelihood,
  double tokens = 0;                     ///< of so many tokens
};

/// The score people quote for a task.
struct MainScore {
  std::string name;  ///< among those of the task's metric: "accuracy", "perplexity"
  bool higher_is_better = true;
};

/// One formulation of a problem, from text to score: which head the model needs, how examples become tokens, what a
/// batch looks like, what the loss is, how logits become answers and how answers are measured. Nothing else in Chorus
/// knows one task from another: a new task is a pair of files and a Registration. Immutable; every member may be called
/// from many threads.
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
  /// The size of the head's answer; 0 when the head decides.
  virtual std::int64_t outputs() const { return static_cast<std::int64_t>(labels().size()); }
  /// What the head's outputs are called in config.json: the labels, or LABEL_0, ... for outputs without names (Hugging
  /// Face's num_labels = 1 of a regression). Empty when the head decides.
  std::vector<std::string> head_labels() const;
  virtual MainScore main_score() const = 0;
  /// Whether a row's tokens differ from pass to pass (masked LM): then nothing computed from them can be cached.
  virtual bool rows_change() const { return false; }
  /// The most tokens of a row.
  virtual std::int64_t max_length() const = 0;
  virtual bool reads(Formulation formulation) const = 0;

  /// Every option that changes what `encode` writes, as text: part of the key of caches.
  virtual std::string encoding_key() const = 0;
  /// Appends the given examples, in their order. DataError for one that does not fit the task.
  virtual void encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const = 0;
  /// The rows a client that holds these examples trains on.
  virtual ClientData client_data(std::shared_ptr<const EncodedDataset> encoded,
                                 std::span<const std::uint32_t> examples) const;

  virtual TaskBatch collate(std::span<const ClientRows> cohort, const CollateOptions& options = {}) const = 0;
  /// [C]: each client's mean over batch.counted answers.
  virtual at::Tensor loss(const Output& output, const TaskBatch& batch) const = 0;

  /// The answers for the examples of a batch with C = 1, which holds all rows of each, one after the other. In the
  /// order of the batch.
  virtual std::vector<Prediction> decode(const Output& output, const TaskBatch& batch, const Dataset& data) const = 0;
  /// As decode, for tasks whose answer takes more than one forward pass (generation).
  virtual std::vector<Prediction> predict(const Model& model, const Params& params, const Output& output,
                                          const TaskBatch& batch, const Dataset& data) const;

  /// Adds an answer to a line of JSON, under the keys that `chorus score` reads.
  virtual void write(const Prediction& prediction, const Dataset& data, nlohmann::json& line) const = 0;

  /// An empty metric of the kind that `score` adds to.
  virtual std::unique_ptr<Metric> metric(Keep keep = Keep::kTotals) const = 0;
  /// Measures one answer against the gold of its example. An example without gold is passed over.
  virtual void score(const Prediction& prediction, const Dataset& data, Metric& metric) const = 0;

  /// ConfigError when the model has another head, another number or order of labels, or is too short for the rows;
  /// DataError when the tokenizer is not its own.
  void check_model(const Model& model) const;
  EncodedLimits limits() const;

 protected:
  /// For each number in the dataset's table the number in `labels()`, or -1.
  std::vector<std::int32_t> label_map(const StringTable& names) const;
  [[noreturn]] void unknown_label(const Dataset& data, std::uint32_t example, std::string_view label) const;
  /// A token for texts that have none: a model cannot read an empty sequence.
  std::int32_t filler() const;
  /// The examples of a batch with C = 1: ranges [first, second) of its sequences.
  static std::vector<std::pair<std::size_t, std::size_t>> examples_in(const TaskBatch& batch);

  TaskInput input_;

 private:
  std::string name_;
};

using Tasks = Registry<Task, const TaskInput&>;

/// Whether more of a score is better: as the task says of its main one; not of losses and perplexities.
bool higher_is_better(const Task& task, const std::string& score);

/// The task that answers such data with such a head, with default options. ConfigError when there is none, or several.
std::string task_for(Head head, Formulation formulation, const TaskInput& input);

}  // namespace chorus::inline tasks
