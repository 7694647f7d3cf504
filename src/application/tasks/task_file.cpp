#include "application/tasks/task_file.h"

#include "core/config/config.h"
#include "core/files/files.h"

namespace chorus::inline tasks {
namespace {

constexpr const char* kTaskFile = "chorus_task.yaml";

struct TaskFile {
  Choice<Tasks> task;

  void describe(ConfigVisitor& visitor) { visitor.field("task", task, "what the model was trained for").required(); }
};

}  // namespace

void save_task(const std::filesystem::path& folder, const Choice<Tasks>& task) {
  write_file(folder / kTaskFile, config_to_yaml(TaskFile{task}));
}

std::optional<Choice<Tasks>> read_task(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / kTaskFile)) return std::nullopt;
  return ConfigDocument::read(folder / kTaskFile).load<TaskFile>().task;
}

}  // namespace chorus::inline tasks
