#pragma once

#include <filesystem>
#include <optional>

#include "application/tasks/task.h"

namespace chorus::inline tasks {

/// chorus_task.yaml in a model folder: the task that the model was trained for, with all options, so that `chorus
/// predict` encodes and scores texts like the run did. Hugging Face ignores the file.
///
///     save_task(folder, config.task);
///     if (const auto choice = read_task(folder)) task = choice->make(input);
void save_task(const std::filesystem::path& folder, const Choice<Tasks>& task);
/// nullopt if the folder has no such file. ConfigError if it is damaged or names an unknown task.
std::optional<Choice<Tasks>> read_task(const std::filesystem::path& folder);

}  // namespace chorus::inline tasks
