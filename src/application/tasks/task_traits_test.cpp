// What every registered task says about itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "application/tasks/task.h"
#include "application/tasks/tiny_world_test.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline tasks {
namespace {

using testing::HasSubstr;

Formulation data_for(const std::string& task) {
  return task.ends_with("_lm") ? Formulation::kLanguageModel : formulation_named(task);
}

struct Exhibit {
  explicit Exhibit(const std::string& name)
      : data(tiny::dataset(data_for(name), 12, 4)),
        words(tiny::tokenizer(data)),
        task(Tasks::make(name, TaskInput::of(data, words))) {}
  Dataset data;
  std::shared_ptr<const Tokenizer> words;
  std::unique_ptr<Task> task;
};

TEST(TaskTraits, TheMainScoreIsOneOfTheMetrics) {
  for (const std::string& name : Tasks::names()) {
    const Exhibit bench(name);
    const MainScore main = bench.task->main_score();
    EXPECT_TRUE(bench.task->metric()->scores().contains(main.name)) << name << ": " << main.name;
    EXPECT_EQ(higher_is_better(*bench.task, main.name), main.higher_is_better);
    EXPECT_EQ(main.higher_is_better, main.name != "perplexity");
    EXPECT_FALSE(higher_is_better(*bench.task, "eval_loss"));
    EXPECT_TRUE(higher_is_better(*bench.task, "macro_f1"));
  }
}

TEST(TaskTraits, OnlyMaskedRowsChangeBetweenPasses) {
  for (const std::string& name : Tasks::names()) EXPECT_EQ(Exhibit(name).task->rows_change(), name == "masked_lm");
}

TEST(TaskTraits, TheHeadsLabelsAreTheTasksOrNumbers) {
  EXPECT_THAT(Exhibit("text_classification").task->head_labels(),
              testing::UnorderedElementsAre("sport", "money", "sky"));
  EXPECT_THAT(Exhibit("pair_regression").task->head_labels(), testing::ElementsAre("LABEL_0"));
  for (const char* name : {"span_extraction", "seq2seq", "causal_lm", "masked_lm"}) {
    EXPECT_TRUE(Exhibit(name).task->head_labels().empty()) << name;
  }
}

TEST(TaskTraits, ATaskIsFoundByHeadAndData) {
  for (const std::string& name : Tasks::names()) {
    const Exhibit bench(name);
    EXPECT_EQ(task_for(bench.task->head(), bench.data.formulation(), TaskInput::of(bench.data, bench.words)), name);
  }
  const Exhibit lines("text_classification");
  const TaskInput input = TaskInput::of(lines.data, lines.words);
  EXPECT_EQ(task_for(Head::kSeq2Seq, Formulation::kTextClassification, input), "seq2seq")
      << "the only one with its head";
  EXPECT_THAT(message_of<ConfigError>([&] { task_for(Head::kSequenceClassification, Formulation::kSeq2Seq, input); }),
              HasSubstr("more than one task"));
}

// The keys are those that `chorus score` reads.
TEST(TaskTraits, AnswersAreWrittenAsJson) {
  const auto line = [](const std::string& name, const Prediction& prediction) {
    const Exhibit bench(name);
    nlohmann::json json;
    bench.task->write(prediction, bench.data, json);
    return json;
  };
  const auto topic = line("text_classification", {.example = 0, .label = 0});
  EXPECT_EQ(topic["label"], "sport");
  EXPECT_TRUE(topic["text"].is_string());
  EXPECT_EQ(line("pair_regression", {.example = 0, .score = 2.5})["score"], 2.5);
  const auto tags = line("seq_tagging", {.example = 0, .tags = {-1, 1, -1, -1, -1}});
  EXPECT_EQ(tags["words"][0], "then");
  EXPECT_EQ(tags["tags"][0], "O");
  EXPECT_EQ(tags["tags"][1], "B-PER");
  EXPECT_EQ(line("span_extraction", {.example = 0, .text = "paris"})["text"], "paris");
  EXPECT_EQ(line("seq2seq", {.example = 0, .text = "eve"})["text"], "eve");
  const auto loss = line("causal_lm", {.example = 0, .loss = 6, .tokens = 3});
  EXPECT_EQ(loss["loss"], 6);
  EXPECT_EQ(loss["tokens"], 3);
}

TEST(TaskBatch, EveryTensorOnTheDeviceIsListed) {
  TaskBatch batch;
  std::vector<at::Tensor*> own{&batch.labels,        &batch.scores,       &batch.starts,          &batch.ends,
                               &batch.counted,       &batch.batch.ids,    &batch.batch.types,     &batch.batch.wanted,
                               &batch.batch.answers, &batch.batch.bottom, &batch.batch.target_ids};
  const auto listed = [&batch] {
    std::vector<at::Tensor*> tensors;
    visit_device_parts(
        batch, [&](at::Tensor& tensor) { tensors.push_back(&tensor); }, [](auto&) {});
    return tensors;
  };
  EXPECT_THAT(listed(), testing::UnorderedElementsAreArray(own));
  batch.fields.resize(2);
  own.insert(own.end(), {&batch.fields[0], &batch.fields[1]});
  EXPECT_THAT(listed(), testing::UnorderedElementsAreArray(own));
}

}  // namespace
}  // namespace chorus::inline tasks
