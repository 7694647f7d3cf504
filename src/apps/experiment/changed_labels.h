#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "application/data/dataset.h"
#include "application/tasks/task.h"

namespace chorus::inline experiment {

/// The training split of `data` with other labels, encoded: `change` gets the id of each example's label among
/// Task::labels() and returns the new one. Called once per example. ConfigError for data without class labels.
std::shared_ptr<const EncodedDataset> with_changed_labels(const Task& task, const Dataset& data,
                                                          const std::function<std::int32_t(std::int32_t)>& change);

}  // namespace chorus::inline experiment
