#include "application/data/continual/utterance_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "application/data/dataset_builder.h"
#include "core/base/error.h"

namespace chorus::inline continual {
namespace {

using testing::HasSubstr;

Dataset dataset(const std::vector<std::string>& texts) {
  DatasetBuilder builder({.formulation = Formulation::kLanguageModel});
  for (const std::string& text : texts) {
    Record record;
    record.text = text;
    builder.add(record, Split::kTrain);
  }
  return std::move(builder).finish();
}

ClientLists lists(const std::vector<std::vector<ExampleId>>& clients) {
  ClientLists result;
  for (const auto& ids : clients) result.append(ids);
  return result;
}

TEST(UtteranceShares, TellOwnOthersAndNew) {
  //                          0        1        2      3         4        5       6         7        8
  const Dataset data = dataset({"play", "stop", "hi", "weather", "play", "stop", "weather", "sing", "sing"});
  // Client 0 said play, stop; client 1 hi, weather; client 2 nothing, and says nothing now; client 3 is new.
  const ClientLists before = lists({{0, 1}, {2, 3}, {}, {}});
  const ClientLists period = lists({{4, 6, 7, 8}, {5}, {}, {6}});
  const UtteranceReport report = utterance_shares(data, before, period);
  EXPECT_EQ(report.known, 4u);
  EXPECT_NEAR(report.devices[0].own, 1. / 3, 1e-12);  // play; sing counts once
  EXPECT_NEAR(report.devices[0].others, 1. / 3, 1e-12);
  EXPECT_NEAR(report.devices[0].fresh, 1. / 3, 1e-12);
  EXPECT_EQ(report.devices[1].others, 1);
  EXPECT_EQ(report.devices[2].own + report.devices[2].others + report.devices[2].fresh, 0);
  EXPECT_EQ(report.devices[3].others, 1);
  ASSERT_EQ(report.groups.size(), 3u);  // devices 3, 1, 0
  EXPECT_EQ(report.groups[0].largest, 1u);
  EXPECT_EQ(report.groups[2].utterances, 3u);
  EXPECT_EQ(report.all.devices, 3u);
  EXPECT_EQ(report.all.utterances, 5u);
  EXPECT_NEAR(report.all.mean.own, 1. / 9, 1e-12);
  EXPECT_NEAR(report.all.mean.others, 7. / 9, 1e-12);

  const UtteranceReport repeated = utterance_shares(data, before, period, {.repeated = true, .groups = 2});
  EXPECT_NEAR(repeated.devices[0].fresh, 0.5, 1e-12);
  ASSERT_EQ(repeated.groups.size(), 2u);
  EXPECT_EQ(repeated.groups[0].devices, 1u);
  EXPECT_EQ(repeated.groups[1].devices, 2u);
  EXPECT_NEAR(repeated.groups[1].mean.fresh, 0.25, 1e-12);

  EXPECT_THAT(shares_table(report), HasSubstr("33.3 %"));
  EXPECT_THAT(shares_json(report), HasSubstr("{\"known\":4,\"all\":{\"devices\":3,\"utterances\":5,"));
}

TEST(UtteranceShares, FoldTextsWhenAsked) {
  const Dataset data = dataset({"Play  THE Émile", " play the\xC2\xA0\xC3\xA9mile\t"});
  const ClientLists before = lists({{0}}), period = lists({{1}});
  EXPECT_EQ(utterance_shares(data, before, period).all.mean.fresh, 1);
  EXPECT_EQ(utterance_shares(data, before, period, {.same = SameText::kFolded}).all.mean.own, 1);
  EXPECT_EQ(folded("  A\n\nb  "), "a b");
  EXPECT_EQ(folded(" \t"), "");
}

TEST(UtteranceShares, CompareAllThatAnExampleSays) {
  DatasetBuilder builder({.formulation = Formulation::kPairRegression});
  for (const auto& [text, second] :
       {std::pair<const char*, const char*>{"a", "b"}, {"a", "c"}, {"a", "b"}, {"ab", "x"}, {"a", "bx"}}) {
    Record record;
    record.text = text;
    record.second = second;
    record.score = 1;
    builder.add(record, Split::kTrain);
  }
  const Dataset data = std::move(builder).finish();
  EXPECT_EQ(utterance_shares(data, lists({{0}}), lists({{1}})).all.mean.fresh, 1);
  EXPECT_EQ(utterance_shares(data, lists({{0}}), lists({{2}})).all.mean.own, 1);
  EXPECT_EQ(utterance_shares(data, lists({{3}}), lists({{4}})).all.mean.fresh, 1);

  DatasetBuilder tagged({.formulation = Formulation::kSequenceTagging});
  for (const auto& words : {std::vector<std::string>{"New", "York"}, {"New", "Jersey"}, {"New", "York"}}) {
    Record record;
    record.words = words;
    record.tags.assign(words.size(), "O");
    tagged.add(record, Split::kTrain);
  }
  const Dataset sentences = std::move(tagged).finish();
  EXPECT_EQ(utterance_shares(sentences, lists({{0}}), lists({{1}})).all.mean.fresh, 1);
  EXPECT_EQ(utterance_shares(sentences, lists({{0}, {}}), lists({{}, {2}})).all.mean.others, 1);
}

TEST(UtteranceShares, AverageOverPeriods) {
  const Dataset data = dataset({"a", "b", "a", "c"});
  const std::vector<UtteranceReport> reports{utterance_shares(data, lists({{0, 1}}), lists({{2}})),
                                             utterance_shares(data, lists({{0, 1, 2}}), lists({{3}}))};
  const UtteranceReport mean = mean_of(reports);
  EXPECT_EQ(mean.all.mean.own, 0.5);
  EXPECT_EQ(mean.all.mean.fresh, 0.5);
  EXPECT_EQ(mean.groups.at(0).devices, 1u);
  EXPECT_THROW(mean_of({}), InternalError);
  const UtteranceReport nothing = utterance_shares(data, lists({{0}}), lists({{}}));
  EXPECT_TRUE(nothing.groups.empty());
  EXPECT_EQ(nothing.all.devices, 0u);
  EXPECT_THROW(utterance_shares(data, lists({{0}}), lists({{9}})), InternalError);
  EXPECT_THROW(utterance_shares(data, lists({{0}}), lists({{}, {1}})), InternalError);
}

}  // namespace
}  // namespace chorus::inline continual
