#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "application/data/dataset_builder.h"
#include "application/data/readers/open_dataset.h"
#include "application/models/pretrained.h"
#include "application/peft/adapter_folder.h"
#include "application/tasks/encode_split.h"
#include "application/tasks/evaluate.h"
#include "application/tasks/task_file.h"
#include "application/text/hugging_face.h"
#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline cli {
namespace {

struct PredictCommand {
  std::string model, adapter, task, device = "cpu";
  std::vector<std::string> paths;
};

Head head_of(const Model& model) {
  if (model.head() != Head::kNone) return model.head();
  throw ConfigError(fmt::format("--model: {} names no head (\"architectures\"); give --task", model.config().origin()));
}

/// Lines of standard input as texts to classify.
Dataset read_lines(std::istream& in) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification, .empty = EmptyText::kKeep});
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    Record record;
    record.text = utf8::replace_invalid(line);
    builder.add(record, Split::kTest, fmt::format("standard input, line {}", number));
  }
  return std::move(builder).finish();
}

nlohmann::json to_json(const Prediction& prediction, const Task& task, const Dataset& data) {
  nlohmann::json line;
  if (const Example example = data.at(prediction.example); !example.id.empty()) line["id"] = example.id;
  task.write(prediction, data, line);
  return line;
}

/// What the model was trained for. An adapter from elsewhere does not say so; then it is what its base was trained for,
/// if that has the adapter's head.
std::optional<Choice<Tasks>> trained_task(const PredictCommand& command, const TaskInput& input, const Model& model) {
  if (command.adapter.empty()) return read_task(command.model);
  if (auto own = read_task(command.adapter)) return own;
  auto base = read_task(command.model);
  try {
    if (base && base->make(input)->head() == model.head()) return base;
  } catch (const ConfigError&) {  // it needs labels of another kind
  }
  return std::nullopt;
}

/// The task that the model was trained for, with its options; otherwise one with default options and a length that the
/// model can read.
std::unique_ptr<Task> make_task(const PredictCommand& command, const TaskInput& input, const Model& model,
                                const Dataset& data) {
  const std::optional<Choice<Tasks>> trained = trained_task(command, input, model);
  if (trained && (command.task.empty() || command.task == trained->name())) return trained->make(input);
  Choice<Tasks> choice(command.task.empty() ? task_for(head_of(model), data.formulation(), input) : command.task);
  ConfigVisitor visitor;
  choice.describe(visitor);
  ConfigField* field = visitor.find("max_length");
  if (field != nullptr && model.max_length() > 0) {
    const auto usual = std::get<std::int64_t>(field->get().front().second);
    field->set({{"", ConfigScalar{std::min(usual, model.max_length())}}});
  }
  return choice.make(input);
}

void predict(const PredictCommand& command) {
  const auto tokenizer = load_tokenizer(command.model);
  Dataset data = [&] {
    if (command.paths.empty()) return read_lines(std::cin);
    DataConfig reading = config_of_paths(command.paths);
    reading.allow_new_labels = true;
    reading.misaligned = Misaligned::kRealign;
    return open_dataset(reading);
  }();
  LoadOptions options;
  options.device = device_named(command.device);
  const Pretrained loaded = load_tuned(command.model, options, command.adapter);
  TaskInput input{tokenizer, {}, loaded.generation};
  if (loaded.model->head()->labelled) input.labels = loaded.model->config().labels();
  const auto task = make_task(command, input, *loaded.model, data);
  task->check_model(*loaded.model);
  const auto metric = task->metric();
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    if (data.split(split).empty()) continue;
    const auto encoded = encode_split(*task, data, split, {.cache = "none"}).data;
    EvaluateOptions evaluation;
    evaluation.predictions = true;
    const Evaluation result =
        evaluate(*task, *loaded.model, loaded.params, {data, encoded, data.split(split)}, evaluation);
    for (const Prediction& prediction : result.predictions) {
      fmt::print("{}\n",
                 to_json(prediction, *task, data).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    metric->merge(*result.metric);
  }
  if (metric->examples() == 0) return;
  std::string scores;
  for (const auto& [score, value] : metric->scores()) {
    if (score.find('/') == std::string::npos) scores += fmt::format("  {} {:.4f}", score, value);
  }
  fmt::print(stderr, "scores against the labels in the data:{}\n", scores);
}

}  // namespace

void add_predict(CLI::App& app) {
  const auto command = std::make_shared<PredictCommand>();
  CLI::App* sub = app.add_subcommand(
      "predict", "predict with a trained model: one JSON line per example; reads standard input when no file is given");
  sub->group(kRuns);
  sub->add_option("files", command->paths, "data files or folders, as for: chorus data info");
  sub->add_option("-m,--model", command->model, "a model folder, such as runs/NAME/model")->required();
  sub->add_option("--adapter", command->adapter, "a PEFT folder to attach; one in the model folder itself is found");
  sub->add_option("--task", command->task,
                  "the task; default: the one the run trained for, else from the model's head");
  sub->add_option("--device", command->device, "cpu or cuda");
  sub->callback([command] { predict(*command); });
}

}  // namespace chorus::inline cli
