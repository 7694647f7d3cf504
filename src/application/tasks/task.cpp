#include "application/tasks/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "application/models/pretrained.h"
#include "core/base/error.h"

namespace chorus::inline tasks {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  const std::size_t shown = std::min(names.size(), kMost);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     names.size() > kMost ? ", ..." : "");
}

bool made_up(const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [](const std::string& name) { return name.starts_with("LABEL_"); });
}

}  // namespace

TaskInput TaskInput::of(const Dataset& data, std::shared_ptr<const Tokenizer> tokenizer) {
  TaskInput input{.tokenizer = std::move(tokenizer)};
  const StringTable& names = data.formulation() == Formulation::kSequenceTagging ? data.tags() : data.labels();
  for (std::size_t i = 0; i < names.size(); ++i) input.labels.emplace_back(names.at(static_cast<std::int32_t>(i)));
  return input;
}

Task::Task(std::string name, TaskInput input) : input_(std::move(input)), name_(std::move(name)) {
  check(input_.tokenizer != nullptr, "a task needs a tokenizer");
}

bool higher_is_better(const Task& task, const std::string& score) {
  const MainScore main = task.main_score();
  if (score == main.name) return main.higher_is_better;
  return score.find("loss") == std::string::npos && score.find("perplexity") == std::string::npos;
}

std::string task_for(Head head, Formulation formulation, const TaskInput& input) {
  std::vector<std::string> reading, with_head;
  for (const std::string& name : Tasks::names()) {
    try {
      const auto task = Tasks::make(name, input);
      if (task->head() != head) continue;
      with_head.push_back(name);
      if (task->reads(formulation)) reading.push_back(name);
    } catch (const ConfigError&) {  // it needs labels of another kind
    }
  }
  const std::vector<std::string>& found = reading.empty() ? with_head : reading;
  if (found.size() == 1) return found.front();
  throw ConfigError(
      fmt::format("{} a {} head answers data for {}; say which (--task)",
                  found.empty() ? "no task with" : fmt::format("more than one task ({}) with", fmt::join(found, ", ")),
                  name_of(head), name_of(formulation)));
}

std::vector<std::string> Task::head_labels() const { return labels().empty() ? numbered_labels(outputs()) : labels(); }

ClientData Task::client_data(std::shared_ptr<const EncodedDataset> encoded,
                             std::span<const std::uint32_t> examples) const {
  std::vector<std::uint32_t> rows = encoded->rows_of(examples);
  return {std::move(encoded), std::move(rows)};
}

std::vector<Prediction> Task::predict(const Model&, const Params&, const Output& output, const TaskBatch& batch,
                                      const Dataset& data) const {
  return decode(output, batch, data);
}

void Task::check_model(const Model& model) const {
  if (model.head() != head()) {
    throw ConfigError(fmt::format("the task {} needs a model with the head {}, not {}; load the model with that head",
                                  name_, name_of(head()), name_of(model.head())));
  }
  if (outputs() > 0) {
    const std::vector<std::string> names = model.config().labels();
    if (static_cast<std::int64_t>(names.size()) != outputs()) {
      throw ConfigError(fmt::format(
          "{}: the model's head has {} labels ({}), the task {} has {} ({}); load the model with the task's labels",
          model.config().origin(), names.size(), list_of(names), name_, outputs(), list_of(labels())));
    }
    if (!labels().empty() && !made_up(names) && names != labels() &&
        std::is_permutation(names.begin(), names.end(), labels().begin(), labels().end())) {
      throw ConfigError(
          fmt::format("{}: the model has the task's labels in another order ({} instead of {}); give the "
                      "task the model's labels",
                      model.config().origin(), list_of(names), list_of(labels())));
    }
  }
  if (model.max_length() > 0 && max_length() > model.max_length()) {
    throw ConfigError(
        fmt::format("{}: the task {} makes sequences of up to {} tokens, the model reads at most {}; lower "
                    "max_length",
                    model.config().origin(), name_, max_length(), model.max_length()));
  }
  check_vocabulary(model, static_cast<std::int64_t>(tokenizer().vocabulary_size()), "the task's tokenizer");
}

EncodedLimits Task::limits() const {
  return {.vocabulary = static_cast<std::int64_t>(tokenizer().vocabulary_size()),
          .labels = static_cast<std::int64_t>(labels().size())};
}

std::vector<std::int32_t> Task::label_map(const StringTable& names) const {
  std::vector<std::int32_t> map;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find(labels().begin(), labels().end(), names.at(static_cast<std::int32_t>(i)));
    map.push_back(found == labels().end() ? -1 : static_cast<std::int32_t>(found - labels().begin()));
  }
  return map;
}

void Task::unknown_label(const Dataset& data, std::uint32_t example, std::string_view label) const {
  const Example found = data.at(example);
  throw DataError(fmt::format(
      "example {}{} of the {} split has the label '{}', which the task does not know (it knows {}); correct "
      "it, or add it to data.labels where the run is configured",
      example, found.id.empty() ? "" : fmt::format(" ({})", found.id), name_of(found.split), label, list_of(labels())));
}

std::int32_t Task::filler() const {
  const auto& special = tokenizer().special();
  for (const auto& id : {special.unk, special.eos, special.sep, special.pad}) {
    if (id) return *id;
  }
  return 0;
}

std::vector<std::pair<std::size_t, std::size_t>> Task::examples_in(const TaskBatch& batch) {
  check(batch.rows.size() == 1, "answers are decoded for one client at a time");
  const auto& rows = batch.rows[0];
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  std::uint32_t behind = 0;
  for (std::size_t b = 0; b < rows.size(); ++b) {
    if (!ranges.empty() && rows[b] < behind && rows[b] == rows[b - 1] + 1) {
      ++ranges.back().second;
      continue;
    }
    behind = batch.data[0]->rows_of(batch.data[0]->example_of(rows[b])).second;
    ranges.emplace_back(b, b + 1);
  }
  return ranges;
}

}  // namespace chorus::inline tasks
