#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "application/data/readers/open_dataset.h"
#include "application/tasks/encode_split.h"
#include "application/text/hugging_face.h"
#include "apps/cli/cli.h"

namespace chorus::inline cli {
namespace {

struct EncodeCommand {
  std::vector<std::string> paths;
  std::string tokenizer;
  std::string task;
  std::int64_t max_length = 0;
  EncodeConfig config;
  bool json = false;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The task with its default options except the length.
std::unique_ptr<Task> make_task(const EncodeCommand& command, const std::string& name, const TaskInput& input) {
  Choice<Tasks> choice(name);
  ConfigVisitor visitor;
  choice.describe(visitor);
  for (ConfigField& field : visitor.fields()) {
    if (field.name == "max_length" && command.max_length > 0) field.set({{"", ConfigScalar{command.max_length}}});
    // Windows overlap by half unless the length is large.
    if (field.name == "doc_stride" && command.max_length > 0 && command.max_length < 256) {
      field.set({{"", ConfigScalar{command.max_length / 2}}});
    }
  }
  return choice.make(input);
}

void encode(const EncodeCommand& command) {
  const auto begin = std::chrono::steady_clock::now();
  if (!command.task.empty()) RegistryIndex::global().get(Task::kKind, command.task);  // fail before reading the data
  DataConfig data_config = config_of_paths(command.paths);
  data_config.allow_new_labels = true;
  data_config.cache = command.config.cache;
  if (!command.task.empty() && !command.task.ends_with("_lm")) data_config.formulation = command.task;
  const Dataset data = open_dataset(data_config);
  const double reading = seconds_since(begin);

  const auto loading_begin = std::chrono::steady_clock::now();
  const auto tokenizer = load_tokenizer(command.tokenizer);
  const double loading = seconds_since(loading_begin);
  std::string name = command.task;
  if (name.empty()) {
    name = data.formulation() == Formulation::kLanguageModel ? "causal_lm" : name_of(data.formulation());
  }
  const auto task = make_task(command, name, TaskInput::of(data, tokenizer));

  nlohmann::json report{{"task", name}, {"splits", nlohmann::json::object()}};
  double encoding = 0;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    if (data.split(split).empty()) continue;
    const auto split_begin = std::chrono::steady_clock::now();
    const EncodedSplit result = encode_split(*task, data, split, command.config);
    const double seconds = seconds_since(split_begin);
    encoding += seconds;
    nlohmann::json& entry = report["splits"][name_of(split)];
    entry = {{"examples", result.data->examples().size()},
             {"rows", result.data->rows()},
             {"tokens", result.data->tokens()},
             {"truncated", result.data->count(EncodeCount::kTruncated)},
             {"lost_words", result.data->count(EncodeCount::kLostWords)},
             {"lost_answers", result.data->count(EncodeCount::kLostAnswers)},
             {"inexact_answers", result.data->count(EncodeCount::kInexactAnswers)},
             {"from_cache", result.from_cache},
             {"file", result.file.string()},
             {"seconds", seconds}};
    if (command.json) continue;
    fmt::print("{:<10} {} examples, {} rows, {} tokens, {} truncated; {:.2f} s{}\n", name_of(split),
               result.data->examples().size(), result.data->rows(), result.data->tokens(),
               result.data->count(EncodeCount::kTruncated), seconds, result.from_cache ? " from the cache" : "");
    if (const auto lost = result.data->count(EncodeCount::kLostWords); lost > 0) {
      fmt::print("           {} words have no tokens and count as tag O\n", lost);
    }
    if (const auto lost = result.data->count(EncodeCount::kLostAnswers); lost > 0) {
      fmt::print("           {} answers are in no window\n", lost);
    }
    if (!result.file.empty()) fmt::print("           {}\n", result.file.string());
  }
  report["seconds"] = {{"read", reading}, {"tokenizer", loading}, {"encode", encoding}, {"all", seconds_since(begin)}};
  if (command.json) {
    fmt::print("{}\n", report.dump(2));
  } else {
    fmt::print("read {:.2f} s, tokenizer {:.2f} s, encode {:.2f} s\n", reading, loading, encoding);
  }
}

}  // namespace

void add_data_encode(CLI::App& app) {
  CLI::App* command = app.get_subcommand("data")->add_subcommand(
      "encode",
      "Tokenize a dataset for a task into the cache, as a run does at its start\n\n"
      "  chorus data encode --data train.jsonl.gz test.jsonl.gz --tokenizer models/bert-base-uncased\n\n"
      "Runs with the same data, tokenizer and task reuse the result.");
  const auto options = std::make_shared<EncodeCommand>();
  command->add_option("--data", options->paths, "Files or folders; train, dev/val or test in a name sets the split")
      ->required();
  command->add_option("--tokenizer", options->tokenizer, "A Hugging Face folder with a tokenizer")->required();
  command->add_option("--task", options->task, "See 'chorus list task' (default: from the data)");
  command->add_option("--max-length", options->max_length, "Tokens per row (default: the task's)")
      ->check(CLI::Range(std::int64_t{4}, std::int64_t{1} << 20));
  command->add_option("--cache", options->config.cache, "Cache folder; auto: ~/.cache/chorus; none: no cache")
      ->capture_default_str();
  command->add_option("--threads", options->config.threads, "Threads; 0: one per core")->check(CLI::Range(0, 1024));
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { encode(*options); });
}

}  // namespace chorus::inline cli
