#pragma once

#include <memory>

#include "application/tasks/encode_split.h"
#include "application/tasks/task.h"
#include "application/tasks/tiny_world_test.h"

namespace chorus::tiny {

/// Texts and a network that classifies their topics, for tests of training.
struct Classifier {
  explicit Classifier(std::uint64_t examples = 80) : data(dataset(Formulation::kTextClassification, examples, 20)) {}

  Dataset data;
  std::shared_ptr<const Tokenizer> words = tokenizer(data);
  std::unique_ptr<Task> task = Tasks::make("text_classification", TaskInput::of(data, words));
  std::unique_ptr<Model> model = make_model(model_config(task->head(), *words, task->labels()), task->head());
  std::shared_ptr<const EncodedDataset> encoded = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;

  /// A client with `count` examples from `begin` on.
  ClientData client(std::size_t begin, std::size_t count) const {
    return task->client_data(encoded, data.split(Split::kTrain).subspan(begin, count));
  }
};

}  // namespace chorus::tiny
