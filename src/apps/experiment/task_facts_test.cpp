#include "apps/experiment/task_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "application/data/dataset_builder.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline experiment {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TaskFacts some_facts() {
  TaskFacts facts{Formulation::kSequenceTagging, {"O", "B-city", "ort \"ä\""}};
  facts.tokenizer = 1;
  facts.layout = 0xfedcba9876543210;
  return facts;
}

std::string refused(const nlohmann::json& json) {
  return message_of<DataError>([&] { parse_task_facts(json.dump()); });
}

TEST(TaskFacts, TravelAsJson) {
  EXPECT_EQ(parse_task_facts(to_json(some_facts())), some_facts());
  EXPECT_EQ(parse_task_facts(to_json(TaskFacts{})), TaskFacts{});
}

TEST(TaskFacts, LabelsComeFromTheData) {
  const auto of = [](Formulation formulation, std::vector<std::string> vocabulary) {
    DatasetBuilder builder({.formulation = formulation, .label_vocabulary = std::move(vocabulary)});
    Record record;
    record.text = "x";
    record.words = {"x", "y"};
    record.label = "sea";
    if (formulation == Formulation::kSequenceTagging) {
      record.label = "";
      record.tags = {"B-a", "O"};
    }
    builder.add(record, Split::kTest);
    return TaskFacts::of(std::move(builder).finish());
  };
  EXPECT_THAT(of(Formulation::kTextClassification, {}).labels, ElementsAre("sea"));
  EXPECT_THAT(of(Formulation::kTextClassification, {"film", "sea"}).labels, ElementsAre("film", "sea"))
      << "also those that do not occur";
  EXPECT_THAT(of(Formulation::kSequenceTagging, {}).labels, ElementsAre("B-a", "O"));
  EXPECT_EQ(of(Formulation::kSequenceTagging, {}).formulation, Formulation::kSequenceTagging);
}

TEST(TaskFacts, InvalidFactsOfAPeerAreRefused) {
  const auto good = nlohmann::json::parse(to_json(some_facts()));
  for (const char* text : {"", "{", "[]", "null", "\"facts\"", "\xff"}) {
    EXPECT_THAT(message_of<DataError>([&] { parse_task_facts(text); }), HasSubstr("not a JSON object")) << text;
  }
  for (const auto& entry : good.items()) {
    auto json = good;
    json.erase(entry.key());
    EXPECT_THAT(refused(json), HasSubstr("it has no \"" + entry.key() + "\""));
    json[entry.key()] = nlohmann::json::object();
    EXPECT_NE(refused(json), kNothingThrown) << entry.key();
  }
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto json = good;
    json[key] = value;
    return refused(json);
  };
  EXPECT_THAT(with("format", 2), HasSubstr("format is not 1"));
  EXPECT_THAT(with("more", 1), HasSubstr("does not know"));
  EXPECT_THAT(with("formulation", "poetry"), HasSubstr("poetry"));
  EXPECT_THAT(with("labels", {"a", "b", "a"}), AllOf(HasSubstr("'a' twice"), HasSubstr("same version")));
  EXPECT_THAT(with("labels", {"a", ""}), HasSubstr("a label is empty"));
  EXPECT_THAT(with("labels", {"a", 7}), HasSubstr("not a text"));
  for (const char* text : {"", "12", "00000000000000001", "000000000000000g", "-000000000000001"}) {
    EXPECT_THAT(with("layout", text), HasSubstr("16 hexadecimal digits")) << text;
  }
}

}  // namespace
}  // namespace chorus::inline experiment
