#include "application/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "application/data/dataset_builder.h"
#include "application/data/dataset_summary.h"
#include "application/data/example_text.h"
#include "core/base/error.h"
#include "core/base/fingerprint.h"
#include "tests/support.h"

namespace chorus::inline data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Record labelled(const std::string& text, const std::string& label) {
  Record record;
  record.text = text;
  record.label = label;
  return record;
}

Record tagged(std::vector<std::string> words, std::vector<std::string> tags) {
  Record record;
  record.words = std::move(words);
  record.tags = std::move(tags);
  return record;
}

TEST(Fingerprint, EqualsThePublishedMurmur3Vectors) {
  EXPECT_EQ(fingerprint("").hex(), "00000000000000000000000000000000");
  EXPECT_EQ(fingerprint("hello").hex(), "cbd8a7b341bd9b025b1e906a48ae1d19");
  EXPECT_EQ(fingerprint("hello, world").hex(), "342fac623a5ebc8e4cdcbc079642414d");
  EXPECT_EQ(fingerprint("The quick brown fox jumps over the lazy dog.").hex(), "cd99481f9ee902c9695da1a38987b6e7");
  EXPECT_NE(fingerprint("b", fingerprint("a")), fingerprint("ab"));
}

TEST(StringStore, KeepsViewsWhileItGrowsAndTakesStringsLongerThanABlock) {
  StringArena arena;
  const StringPlace first = arena.add("first");
  const std::string_view view = arena.at(first);
  const std::string big(3'000'000, 'x');
  std::vector<StringPlace> places;
  for (int i = 0; i < 50; ++i) {
    places.push_back(arena.add(i % 7 == 3 ? big : std::to_string(i)));
  }
  EXPECT_EQ(view.data(), arena.at(first).data());
  EXPECT_EQ(view, "first");
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(arena.at(places[static_cast<std::size_t>(i)]), i % 7 == 3 ? big : std::to_string(i));
  }
}

TEST(StringStore, TableNumbersInOrderOfAppearance) {
  StringTable table;
  EXPECT_EQ(table.find("a"), StringTable::kNone);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(table.intern("name" + std::to_string(i)), i);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(table.find("name" + std::to_string(i)), i);
  EXPECT_EQ(table.at(4321), "name4321");
  EXPECT_EQ(table.size(), 5000U);
}

TEST(Dataset, HoldsWhatWasAdded) {
  DatasetBuilder builder({.formulation = Formulation::kSpanExtraction});
  Record record;
  record.text = "Über allen Gipfeln";
  record.second = "Wo?";
  record.answers = {{"allen", 5, 10}, {"Gipfeln", 11, 18}};
  builder.add(record, Split::kTrain);
  record.answers.clear();
  record.second = "Was?";
  record.client = "goethe";
  record.time = 1780;
  builder.add(record, Split::kTest);
  const Dataset data = std::move(builder).finish();

  ASSERT_EQ(data.size(), 2U);
  const Example first = data.at(0);
  ASSERT_EQ(first.answers.size(), 2U);
  EXPECT_EQ(first.answers[1].text, "Gipfeln");
  EXPECT_EQ(first.answers[1].begin, 11);
  EXPECT_EQ(first.client, -1);
  EXPECT_EQ(first.time, kNoTime);
  const Example second = data.at(1);
  EXPECT_EQ(second.text.data(), first.text.data()) << "a context asked twice is stored once";
  EXPECT_EQ(second.second, "Was?");
  EXPECT_TRUE(second.answers.empty());
  EXPECT_EQ(data.clients().at(second.client), "goethe");
  EXPECT_EQ(second.time, 1780);
  EXPECT_THAT(data.split(Split::kTest), ElementsAre(1U));
  EXPECT_TRUE(data.label_ids().empty());
  EXPECT_TRUE(data.source_ids().empty());
}

TEST(Dataset, OrdersTheVocabularyByTrainingDataWhateverIsReadFirst) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification});
  builder.add(labelled("v", "b"), Split::kValidation);
  builder.add(labelled("t", "a"), Split::kTrain);
  builder.add(labelled("t", "b"), Split::kTrain);
  const Dataset data = std::move(builder).finish();
  EXPECT_EQ(data.labels().at(0), "a");
  EXPECT_THAT(data.label_ids(), ElementsAre(1, 0, 1));
}

TEST(Dataset, NamesALabelThatOnlyTheTestSetHas) {
  const auto build = [](bool allow) {
    DatasetBuilder builder({.formulation = Formulation::kTextClassification, .allow_new_labels = allow});
    builder.add(labelled("a", "known"), Split::kTrain);
    builder.add(labelled("b", "strange"), Split::kTest, "test.csv:17");
    return std::move(builder).finish();
  };
  EXPECT_THAT(message_of<DataError>([&] { build(false); }),
              testing::AllOf(HasSubstr("test.csv:17"), HasSubstr("'strange'")));
  EXPECT_EQ(build(true).labels().size(), 2U);
}

TEST(Dataset, AGivenVocabularyIsAuthoritative) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification, .label_vocabulary = {"x", "y", "z"}});
  builder.add(labelled("a", "z"), Split::kTrain);
  builder.add(labelled("b", "y"), Split::kTest);
  EXPECT_THAT(message_of<DataError>([&] { builder.add(labelled("c", "w"), Split::kTrain, "f:3"); }),
              HasSubstr("f:3: the label 'w'"));
  const Dataset data = std::move(builder).finish();
  EXPECT_THAT(data.label_ids(), ElementsAre(2, 1));
  EXPECT_EQ(data.labels().size(), 3U);
}

TEST(Dataset, WordsAndTagsAndTheirMismatch) {
  DatasetBuilder builder({.formulation = Formulation::kSequenceTagging});
  builder.add(tagged({"New", "York"}, {"B-LOC", "I-LOC"}), Split::kTrain);
  builder.add(tagged({}, {}), Split::kTrain);
  builder.add(tagged({"York", "is", "old"}, {"B-LOC", "O", "O"}), Split::kTrain);
  EXPECT_THAT(message_of<DataError>([&] {
                builder.add(tagged({"a", "b"}, {"O"}), Split::kTrain, "x.conll:9");
              }),
              testing::AllOf(HasSubstr("x.conll:9"), HasSubstr("2 words but 1 tags")));
  const Dataset data = std::move(builder).finish();
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data.report().empty, 1U);
  EXPECT_EQ(data.words(1)[2], "old");
  EXPECT_EQ(data.words(0).ids()[1], data.words(1).ids()[0]);
  EXPECT_THAT(data.tag_ids(1), ElementsAre(0, 2, 2));
}

TEST(Dataset, EmptyTextIsSkippedKeptOrRefused) {
  for (const EmptyText policy : {EmptyText::kSkip, EmptyText::kKeep, EmptyText::kError}) {
    DatasetBuilder builder({.formulation = Formulation::kTextClassification, .empty = policy});
    builder.add(labelled("a", "x"), Split::kTrain);
    const std::string error = message_of<DataError>([&] { builder.add(labelled(" \n", "x"), Split::kTrain, "f:2"); });
    EXPECT_EQ(error, policy == EmptyText::kError ? "f:2: the example has no text" : kNothingThrown);
    const Dataset data = std::move(builder).finish();
    EXPECT_EQ(data.size(), policy == EmptyText::kKeep ? 2U : 1U);
    EXPECT_EQ(data.report().empty, 1U);
  }
}

TEST(Dataset, FingerprintSeesEveryField) {
  const auto print = [](auto&& change) {
    Record record = labelled("text", "label");
    record.words = {"a", "b"};
    record.tags = {"O", "O"};
    record.answers = {{"te", 0, 2}};
    change(record);
    DatasetBuilder builder({.formulation = Formulation::kTextClassification});
    builder.add(record, Split::kTrain);
    return std::move(builder).finish().fingerprint();
  };
  const Fingerprint plain = print([](Record&) {});
  EXPECT_EQ(plain, print([](Record&) {}));
  EXPECT_NE(plain, print([](Record& r) { r.text = "texu"; }));
  EXPECT_NE(plain, print([](Record& r) { r.label = "other"; }));
  EXPECT_NE(plain, print([](Record& r) { r.tags[1] = "B"; }));
  EXPECT_NE(plain, print([](Record& r) { r.words = {"ab", ""}; }));
  EXPECT_NE(plain, print([](Record& r) { r.answers[0].end = 3; }));
  EXPECT_NE(plain, print([](Record& r) { r.time = 4; }));
  EXPECT_NE(plain, print([](Record& r) { r.client = "c"; }));
}

TEST(Dataset, AMillionExamplesTakeLittleMoreThanTheirText) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification});
  Record record;
  for (int i = 0; i < 1'000'000; ++i) {
    record.text = "the number " + std::to_string(i);
    record.label = i % 3 == 0 ? "fizz" : "none";
    record.client = std::to_string(i % 100'000);
    builder.add(record, Split::kTrain);
  }
  const Dataset data = std::move(builder).finish();
  EXPECT_EQ(data.at(999'999).text, "the number 999999");
  EXPECT_EQ(data.clients().size(), 100'000U);
  EXPECT_LT(data.memory(), 100'000'000U);
}

TEST(Dataset, LimitsEachSplit) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification, .limit = 2});
  builder.add(labelled("a", "x"), Split::kTrain);
  EXPECT_FALSE(builder.full(Split::kTrain));
  builder.add(labelled("b", "x"), Split::kTrain);
  EXPECT_TRUE(builder.full(Split::kTrain));
  EXPECT_FALSE(builder.full(Split::kTest));
  builder.add(labelled("c", "y"), Split::kTest);  // of a file that is sorted by label
  EXPECT_THAT(message_of<DataError>([&] { std::move(builder).finish(); }),
              HasSubstr("'y' does not occur in the first 2 training examples; raise the limit"));
}

TEST(DatasetSummary, CountsLabelsLengthsAndClients) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification});
  Record record = labelled("one two  three", "x");
  record.client = "ann";
  record.time = 5;
  builder.add(record, Split::kTrain);
  record = labelled("vier", "y");
  record.client = "ann";
  record.time = 3;
  builder.add(record, Split::kTrain);
  builder.add(labelled("f\u00fcnf", "x"), Split::kTest);
  const DatasetSummary summary = summarise(std::move(builder).finish());
  EXPECT_THAT(summary.sizes, ElementsAre(2U, 0U, 1U));
  ASSERT_EQ(summary.labels.size(), 2U);
  EXPECT_THAT(summary.labels[0].counts, ElementsAre(1U, 0U, 1U));
  EXPECT_EQ(summary.words.max, 3);
  EXPECT_EQ(summary.characters.min, 4);
  EXPECT_EQ(summary.clients, 1U);
  EXPECT_EQ(summary.client_sizes.median, 2);
  EXPECT_EQ(summary.first_time, 3);
  EXPECT_EQ(summary.last_time, 5);
  EXPECT_THAT(summary.text(), HasSubstr("2 train, 0 validation, 1 test"));
  EXPECT_THAT(summary.json(), HasSubstr("\"validation\": 0"));
}

TEST(ExampleText, MarksTagsAndAnswersAndShowsControlCharactersHarmlessly) {
  DatasetBuilder tags({.formulation = Formulation::kSequenceTagging});
  tags.add(tagged({"in", "New", "York", "\x1b[31m"}, {"O", "B-LOC", "I-LOC", "O"}), Split::kTrain);
  const Dataset tagging = std::move(tags).finish();
  EXPECT_THAT(example_text(tagging, 0), HasSubstr("in [New York]LOC"));
  EXPECT_EQ(example_text(tagging, 0).find('\x1b'), std::string::npos);
  EXPECT_THAT(example_json(tagging, 0), HasSubstr("\"tags\":[\"O\",\"B-LOC\""));

  DatasetBuilder spans({.formulation = Formulation::kSpanExtraction});
  Record record;
  record.text = "\u00c4 cat sat";
  record.second = "Who?";
  record.answers = {{"cat", 2, 5}};
  spans.add(record, Split::kTest);
  EXPECT_THAT(example_text(std::move(spans).finish(), 0), HasSubstr(">>cat<<"));
}

TEST(ExampleText, SamplesDistinctExamplesReproducibly) {
  const std::vector<std::size_t> first = sample_indices(1000, 50, 7);
  EXPECT_EQ(first, sample_indices(1000, 50, 7));
  EXPECT_NE(first, sample_indices(1000, 50, 8));
  EXPECT_EQ(first.size(), 50U);
  EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
  EXPECT_THAT(sample_indices(3, 10, 1), ElementsAre(0U, 1U, 2U));
}

}  // namespace
}  // namespace chorus::inline data
