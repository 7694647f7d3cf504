// Other commands use what a run leaves: its task, its adapter, its labels.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/program.h"
#include "tests/support.h"

namespace chorus::inline integration {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

Outcome run_chorus(const std::string& arguments, const std::string& input = "") {
  return run_program(CHORUS_PROGRAM, arguments, input);
}

std::vector<json> json_lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ModelFolder : public testing::Test {
 protected:
  /// Writes train.jsonl and test.jsonl and trains on them, by default from the repository's small model.
  Outcome train(const std::string& formulation, const std::string& settings,
                const std::string& network = "{from: models/chorus-mini}") {
    for (const char* split : {"train", "test"}) {
      const Outcome made =
          run_chorus("data make -f " + formulation + " -n " + (split == std::string("train") ? "64" : "48") +
                     (formulation == "text_classification" ? " --labels 4" : "") + " --split " + split + " -o " +
                     path(std::string(split) + ".jsonl") + " 2>&1");
      EXPECT_EQ(made.status, 0) << made.output;
    }
    std::ofstream(folder_ / "run.yaml") << "kind: experiment\nname: folder\nseed: 5\ndata: {train: ["
                                        << path("train.jsonl") << "], test: [" << path("test.jsonl")
                                        << "]}\nencoding: {cache: none}\nmodel: " << network
                                        << "\n"
                                           "clients: {count: 4, partition: uniform}\nrounds: 2\nclients_per_round: 4\n"
                                           "trainer: {batch_size: 8, learning_rate: 0.003}\n";
    return run_chorus("--quiet run " + path("run.yaml") + " " + settings + " --run-folder " + path("run") + " 2>&1");
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string model() const { return path("run") + "/model"; }
  json last_evaluation() const {
    json last;
    for (const json& event : json_lines(text_of(folder_ / "run" / "metrics.jsonl"))) {
      if (event["kind"] == "evaluation" && event["split"] == "test") last = event;
    }
    return last;
  }
  /// The output of `chorus COMMAND --model` for a line must differ with and without the folder's adapter.
  void expect_adapter_matters(const std::string& command, const std::string& line) {
    const auto answer = [&](const std::string& folder) {
      const Outcome outcome = run_chorus(command + folder, line);
      EXPECT_EQ(outcome.status, 0) << command;
      EXPECT_FALSE(outcome.output.empty()) << command;
      return outcome.output;
    };
    const std::string with = answer(model());
    const std::string plain = path("plain");
    fs::remove_all(plain);
    fs::copy(model(), plain);
    ASSERT_TRUE(fs::remove(fs::path(plain) / "adapter_config.json"));
    EXPECT_NE(with, answer(plain)) << command;
  }

  TemporaryFolder folder_;
};

TEST_F(ModelFolder, ARegressionTrainsFromALanguageModelAndPredictScoresAsTheRunDid) {
  const Outcome run = train("pair_regression", "task.name=pair_regression task.max_length=12");
  ASSERT_EQ(run.status, 0) << run.output;
  const json config = json::parse(text_of(fs::path(model()) / "config.json"));
  EXPECT_EQ(config["id2label"], json({{"0", "LABEL_0"}})) << "Hugging Face reads one label as a regression";
  const auto predict = [&] {
    return run_chorus("predict -m " + model() + " " + path("test.jsonl") + " 2>&1 >" + path("answers"));
  };
  const Outcome predicted = predict();
  ASSERT_EQ(predicted.status, 0) << predicted.output;
  const json last = last_evaluation();
  for (const char* score : {"pearson", "spearman"}) {
    EXPECT_THAT(predicted.output, HasSubstr(fmt::format("  {} {:.4f}", score, last[score].get<double>())));
  }
  const auto answers = json_lines(text_of(folder_ / "answers"));
  EXPECT_EQ(answers.size(), 48U);
  for (const json& answer : answers) EXPECT_TRUE(answer["score"].is_number());
  ASSERT_TRUE(fs::remove(fs::path(model()) / "chorus_task.yaml"));
  EXPECT_NE(predict().output, predicted.output) << "no pair was cut, so this test cannot tell";
}

TEST_F(ModelFolder, PredictedLabelsAreTheRunsAccuracy) {
  const Outcome run = train("text_classification", "task.name=text_classification task.max_length=8");
  ASSERT_EQ(run.status, 0) << run.output;
  const Outcome predicted = run_chorus("predict -m " + model() + " " + path("test.jsonl") + " 2>/dev/null");
  const auto predictions = json_lines(predicted.output);
  const auto references = json_lines(text_of(folder_ / "test.jsonl"));
  ASSERT_EQ(predictions.size(), references.size());
  double right = 0;
  for (std::size_t i = 0; i < references.size(); ++i) {
    EXPECT_EQ(predictions[i]["id"], references[i]["id"]);
    right += predictions[i]["label"] == references[i]["label"] ? 1 : 0;
  }
  EXPECT_DOUBLE_EQ(right / static_cast<double>(references.size()), last_evaluation()["accuracy"].get<double>());
}

TEST_F(ModelFolder, FillAndEmbedUseTheAdapter) {
  const Outcome run = train("language_model", "task.name=masked_lm tuning=pfeiffer");
  ASSERT_EQ(run.status, 0) << run.output;
  expect_adapter_matters("fill --json --model ", "She opened the [MASK] and went in.");
  expect_adapter_matters("embed --model ", "She opened the door.");
}

TEST_F(ModelFolder, GenerateUsesTheAdapter) {
  const Outcome run =
      train("language_model", "task.name=causal_lm task.max_length=32 tuning.name=pfeiffer tuning.near_identity=true",
            "{fresh: {model_type: gpt2, n_embd: 32, n_layer: 2, n_head: 2, n_positions: 64}, "
            "tokenizer: models/chorus-mini}");
  ASSERT_EQ(run.status, 0) << run.output;
  expect_adapter_matters("generate --json --max-new-tokens 24 --model ", "the");
}

TEST_F(ModelFolder, LoraMergesIntoTheBaseThatItNames) {
  const Outcome run = train("text_classification", "task.name=text_classification task.max_length=8 tuning=lora");
  ASSERT_EQ(run.status, 0) << run.output;
  const Outcome merge =
      run_chorus("model merge models/chorus-mini " + path("merged") + " --adapter " + model() + " 2>&1");
  ASSERT_EQ(merge.status, 0) << merge.output;
  const auto same = [&](const char* name) {
    return text_of(fs::path(model()) / name) == text_of(folder_ / "merged" / name);
  };
  EXPECT_TRUE(same("model.safetensors")) << "the run merged the same adapter into the same base";
  EXPECT_TRUE(same("config.json")) << "with the same labels";
}

TEST_F(ModelFolder, AnAdapterAnswersWithItsOwnLabelsAndTask) {
  const Outcome run = train("text_classification", "task.name=text_classification task.max_length=8 tuning=lora");
  ASSERT_EQ(run.status, 0) << run.output;
  const auto labels_with = [&](const std::string& arguments) {
    const Outcome predicted = run_chorus("predict " + arguments + " " + path("test.jsonl") + " 2>" + path("log"));
    EXPECT_EQ(predicted.status, 0) << arguments << text_of(folder_ / "log");
    std::vector<std::string> labels;
    if (predicted.status == 0) {
      for (const json& line : json_lines(predicted.output)) labels.push_back(line.value("label", "none"));
    }
    return labels;
  };
  const std::vector<std::string> merged = labels_with("-m " + model());
  ASSERT_EQ(merged.size(), 48U);
  const std::string adapter = " --adapter " + model() + "/adapter";
  EXPECT_EQ(labels_with("-m models/chorus-mini" + adapter), merged) << "a base without a classifier";

  fs::copy("models/chorus-mini", path("base"));
  json config = json::parse(text_of(folder_ / "base" / "config.json"));
  const json own = json::parse(text_of(fs::path(model()) / "config.json"))["id2label"];
  config["architectures"] = {"BertForSequenceClassification"};
  for (std::size_t i = 0; i < own.size(); ++i) {
    const json& name = own[std::to_string(own.size() - 1 - i)];
    config["id2label"][std::to_string(i)] = name;
    config["label2id"][name.get<std::string>()] = i;
  }
  fs::remove(folder_ / "base" / "config.json");
  std::ofstream(folder_ / "base" / "config.json") << config;
  EXPECT_EQ(labels_with("-m " + path("base") + adapter), merged) << "a base with the labels in another order";

  std::ofstream(folder_ / "base" / "chorus_task.yaml") << "task: {name: masked_lm}\n";
  EXPECT_EQ(labels_with("-m " + path("base") + adapter), merged) << "a base trained for another task";
  ASSERT_TRUE(fs::remove(fs::path(model()) / "adapter" / "chorus_task.yaml"));
  EXPECT_EQ(labels_with("-m " + path("base") + adapter).size(), 48U) << "an adapter that does not name its task";
}

TEST_F(ModelFolder, PartitionStatisticsAreOneJsonDocument) {
  ASSERT_EQ(run_chorus("data make -f text_classification --labels 3 -n 200 -o " + path("all.jsonl") + " 2>&1").status,
            0);
  const std::string make = "partition make --data " + path("all.jsonl") + " -n 10 --json -o " + path("parts.json");
  const json several = json::parse(run_chorus(make + " --alpha 0.5,5 2>/dev/null").output);
  ASSERT_TRUE(several.is_array());
  EXPECT_EQ(several.size(), 2u);
  EXPECT_TRUE(json::parse(run_chorus(make + " --alpha 50 2>/dev/null").output).is_object());
  const Outcome nothing = run_chorus(make + " --alpha 7 --test-share 1 2>&1");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.output, HasSubstr("the test share is 1; it must be"));
}

TEST_F(ModelFolder, EmptyClientsCauseAWarning) {
  std::ofstream lines(folder_ / "same.jsonl");
  for (int i = 0; i < 60; ++i) lines << R"({"text": "one and the same text", "label": ")" << i % 2 << "\"}\n";
  lines.close();
  const Outcome outcome =
      run_chorus("partition make --data " + path("same.jsonl") + " -m kmeans -n 50 -o " + path("parts.json") + " 2>&1");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("49 of 50 clients have no training examples"), HasSubstr("fewer clients")));
}

TEST(ModelCheck, NamesAFolderWithATrailingSlash) {
  for (const char* folder : {"tests/fixtures/parity/bert-seqcls", "tests/fixtures/parity/bert-seqcls/",
                             "tests/fixtures/parity/bert-seqcls//", "tests/fixtures/parity/./bert-seqcls/."}) {
    const Outcome checked = run_chorus(std::string("model check ") + folder + " 2>&1");
    EXPECT_EQ(checked.status, 0) << checked.output;
    EXPECT_THAT(checked.output, HasSubstr("\nbert-seqcls ")) << folder;
  }
}

}  // namespace
}  // namespace chorus::inline integration
