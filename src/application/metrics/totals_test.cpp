// What clients send to their server instead of examples: the totals of every metric.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "application/metrics/class_report.h"
#include "application/metrics/classification.h"
#include "application/metrics/correlation.h"
#include "application/metrics/perplexity.h"
#include "application/metrics/rouge.h"
#include "application/metrics/spans.h"
#include "application/metrics/squad.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline metrics {
namespace {

using testing::HasSubstr;

struct TotalsCase {
  const char* name;
  std::function<std::unique_ptr<Metric>(Keep)> make;
  std::function<void(Metric&, int)> add;  // example number i
};

std::vector<TotalsCase> totals_cases() {
  const auto word = [](int i) { return std::string(1, static_cast<char>('a' + i % 3)); };
  return {{"classification", [](Keep keep) { return std::make_unique<Classification>(ClassificationOptions{}, keep); },
           [=](Metric& m, int i) { static_cast<Classification&>(m).add(word(i), word(i * i)); }},
          {"positive",
           [](Keep keep) {
             return std::make_unique<Classification>(ClassificationOptions{{}, "b"}, keep);
           },
           [=](Metric& m, int i) { static_cast<Classification&>(m).add(word(i), word(i * 2)); }},
          {"correlation", [](Keep keep) { return std::make_unique<Correlation>(keep); },
           [](Metric& m, int i) { static_cast<Correlation&>(m).add(i * 7 % 5, i * 3 % 4); }},
          {"perplexity", [](Keep keep) { return std::make_unique<Perplexity>(keep); },
           [](Metric& m, int i) { static_cast<Perplexity&>(m).add(0.5 * i, 1 + i % 4); }},
          {"spans", [](Keep keep) { return std::make_unique<SpanF1>(SpanScheme::kLenient, keep); },
           [](Metric& m, int i) {
             const std::vector<std::string> gold{"B-A", "I-A", "O"}, guess{"B-A", i % 2 == 0 ? "I-A" : "O", "B-C"};
             static_cast<SpanF1&>(m).add(guess, gold);
           }},
          {"squad", [](Keep keep) { return std::make_unique<SquadF1>(SquadVersion::kV2, keep); },
           [=](Metric& m, int i) {
             const std::vector<std::string> golds = i % 3 == 0 ? std::vector<std::string>{} : std::vector{word(i)};
             static_cast<SquadF1&>(m).add(i % 2 == 0 ? word(i) : "", golds);
           }},
          {"rouge", [](Keep keep) { return std::make_unique<Rouge>(true, keep); },
           [=](Metric& m, int i) {
             const std::vector<std::string> references{"the cat sat on a mat", word(i)};
             static_cast<Rouge&>(m).add(i % 2 == 0 ? "a cat sat" : word(i * 2), references);
           }}};
}

void expect_same_scores(const Scores& got, const Scores& expected, const char* name) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (const auto& [key, value] : expected) {
    ASSERT_TRUE(got.contains(key)) << name << " " << key;
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(got.at(key))) << name << " " << key;
    } else {
      EXPECT_NEAR(got.at(key), value, 1e-12) << name << " " << key;
    }
  }
}

TEST(MetricTotals, OfSeveralClientsGiveTheScoresOfAllExamples) {
  for (const TotalsCase& one : totals_cases()) {
    const auto all = one.make(Keep::kTotals), server = one.make(Keep::kTotals);
    for (int client = 0; client < 4; ++client) {
      const auto mine = one.make(Keep::kTotals);
      for (int i = 0; i < client * 3; ++i) {  // the first client has none
        one.add(*mine, 10 * client + i);
        one.add(*all, 10 * client + i);
      }
      server->add_totals(mine->totals());
    }
    EXPECT_EQ(server->examples(), 18U) << one.name;
    expect_same_scores(server->scores(), all->scores(), one.name);
  }
}

TEST(MetricTotals, UnitsCanBeCountedAnyNumberOfTimes) {
  for (const TotalsCase& one : totals_cases()) {
    const auto kept = one.make(Keep::kUnits), repeated = one.make(Keep::kTotals);
    const std::vector<std::uint32_t> times{2, 0, 1, 3, 1, 0, 1};
    for (int i = 0; i < 7; ++i) {
      one.add(*kept, i);
      for (std::uint32_t t = 0; t < times[static_cast<std::size_t>(i)]; ++t) one.add(*repeated, i);
    }
    ASSERT_EQ(kept->units(), 7U) << one.name;
    const Scores expected = repeated->scores();
    Scores got = kept->scores(times);
    // Classes without a counted example are left out on both sides.
    for (const auto& [key, value] : expected) {
      ASSERT_TRUE(got.contains(key)) << one.name << " " << key;
      if (!std::isnan(value)) {
        EXPECT_NEAR(got.at(key), value, 1e-12) << one.name << " " << key;
      }
    }
    EXPECT_EQ(got.at("examples"), 8) << one.name;
    EXPECT_THROW((void)kept->scores(std::vector<std::uint32_t>(6, 1)), InternalError) << one.name;
  }
}

TEST(MetricTotals, ClientsMayBeUnits) {
  for (const TotalsCase& one : totals_cases()) {
    const auto server = one.make(Keep::kUnits), second_only = one.make(Keep::kTotals);
    for (int client = 0; client < 2; ++client) {
      const auto mine = one.make(Keep::kTotals);
      for (int i = 0; i < 3; ++i) {
        one.add(*mine, 10 * client + i);
        if (client == 1) one.add(*second_only, 10 * client + i);
      }
      server->merge_as_unit(*mine);
    }
    EXPECT_EQ(server->units(), 2U);
    EXPECT_EQ(server->examples(), 6U);
    const Scores got = server->scores(std::vector<std::uint32_t>{0, 1});
    EXPECT_EQ(got.at("examples"), 3) << one.name;
    for (const auto& [key, value] : second_only->scores()) {
      if (!std::isnan(value)) {
        EXPECT_NEAR(got.at(key), value, 1e-12) << one.name << " " << key;
      }
    }
  }
}

TEST(MetricTotals, OnlyMetricsOfOneKindAreMerged) {
  const std::vector<TotalsCase> cases = totals_cases();
  for (const TotalsCase& one : cases) {
    for (const TotalsCase& other : cases) {
      const auto into = one.make(Keep::kTotals), from = other.make(Keep::kTotals);
      if (&one == &other) {
        into->merge(*from);
      } else {
        EXPECT_THROW(into->merge(*from), InternalError) << one.name << " " << other.name;
      }
    }
    const auto units = one.make(Keep::kUnits), totals = one.make(Keep::kTotals);
    EXPECT_THROW(units->merge(*totals), InternalError) << one.name;
    EXPECT_THROW(totals->merge_as_unit(*units), InternalError) << one.name;
  }
}

TEST(MetricTotals, DamagedOnesOfAPeerAreRefused) {
  for (const TotalsCase& one : totals_cases()) {
    const auto mine = one.make(Keep::kTotals);
    for (int i = 0; i < 5; ++i) one.add(*mine, i);
    MetricTotals totals = mine->totals();
    totals.rows.pop_back();
    EXPECT_THAT(message_of<DataError>([&] { one.make(Keep::kTotals)->add_totals(totals); }), HasSubstr("totals"))
        << one.name;
  }
}

TEST(ClassReport, ByHand) {
  Tally tally(Keep::kTotals);
  tally.add(tally.index("b"), {2, 4, 2});  // correct, predicted, actual
  tally.add(tally.index("a"), {1, 1, 3});
  (void)tally.index("never");
  const std::vector<ClassScore> classes = class_scores(tally);
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_EQ(classes[0].name, "a");
  Scores scores;
  report_classes(classes, scores);
  EXPECT_DOUBLE_EQ(scores.at("precision/b"), 0.5);
  EXPECT_DOUBLE_EQ(scores.at("recall/b"), 1);
  EXPECT_DOUBLE_EQ(scores.at("f1/a"), 0.5);
  EXPECT_DOUBLE_EQ(scores.at("support/a"), 3);
  EXPECT_DOUBLE_EQ(scores.at("micro_precision"), 3.0 / 5);
  EXPECT_DOUBLE_EQ(scores.at("micro_recall"), 3.0 / 5);
  EXPECT_DOUBLE_EQ(scores.at("macro_recall"), (1 + 1.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(scores.at("weighted_precision"), (3 * 1 + 2 * 0.5) / 5);
  EXPECT_FALSE(scores.contains("f1/never"));
  const ClassScore nothing;
  EXPECT_EQ(nothing.precision() + nothing.recall() + nothing.f1(), 0);
}

TEST(Spans, TheLenientSchemeIsConllevals) {
  struct Case {
    std::vector<std::string> tags;
    std::vector<Span> expected;
  };
  const Case cases[] = {
      {{}, {}},
      {{"O", "O"}, {}},
      {{"B-A", "I-A", "B-A"}, {{"A", 0, 1}, {"A", 2, 2}}},
      {{"I-A", "I-A"}, {{"A", 0, 1}}},                      // begins without a B
      {{"B-A", "I-B"}, {{"A", 0, 0}, {"B", 1, 1}}},         // another type begins a new one
      {{"B-A", "E-A", "I-A"}, {{"A", 0, 1}, {"A", 2, 2}}},  // an E ends it
      {{"S-A", "S-A", "I-A"}, {{"A", 0, 0}, {"A", 1, 1}, {"A", 2, 2}}},
      {{"B", "I", "O"}, {{"_", 0, 1}}},            // no type
      {{"O", "B-X-Y", "I-X-Y"}, {{"X-Y", 1, 2}}},  // types may have a hyphen
  };
  for (const Case& one : cases) {
    EXPECT_EQ(spans_of(one.tags, SpanScheme::kLenient), one.expected) << testing::PrintToString(one.tags);
  }
  EXPECT_TRUE(spans_of(std::vector<std::string>{"I-A", "O"}, SpanScheme::kIob2).empty());
  EXPECT_THROW((void)spans_of(std::vector<std::string>{"S-A"}, SpanScheme::kIob2), DataError);
  EXPECT_THROW((void)spans_of(std::vector<std::string>{""}, SpanScheme::kLenient), DataError);
}

}  // namespace
}  // namespace chorus::inline metrics
