#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "application/data/dataset.h"

namespace chorus::inline experiment {

/// What a server tells its clients about the task besides the configuration, so that both build the same network and
/// detect when they do not. Travels as JSON.
///
///     const std::string text = to_json(model.facts());                // at the server
///     const TaskModel model(config, parse_task_facts(text));          // at a client: the same network, or an error
struct TaskFacts {
  Formulation formulation = Formulation::kTextClassification;  ///< of the data
  std::vector<std::string> labels = {};                        ///< classes or tags, in the order of the head's outputs

  /// Fingerprints that the receiver compares with its own; 0: not stated.
  std::uint64_t tokenizer = 0;
  std::uint64_t layout = 0;  ///< of what trains: names, shapes and order
  std::uint64_t frozen = 0;  ///< of the values that do not train, which never travel

  /// The formulation and the labels of a dataset: `data.labels`, or the labels that occur.
  static TaskFacts of(const Dataset& data);

  bool operator==(const TaskFacts&) const = default;
};

std::string to_json(const TaskFacts& facts);
/// DataError for anything that `to_json` does not produce.
TaskFacts parse_task_facts(const std::string& json);

}  // namespace chorus::inline experiment
