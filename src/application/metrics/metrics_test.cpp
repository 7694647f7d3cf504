#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "application/metrics/breakdown.h"
#include "application/metrics/classification.h"
#include "application/metrics/correlation.h"
#include "application/metrics/perplexity.h"
#include "application/metrics/porter_stemmer.h"
#include "application/metrics/rouge.h"
#include "application/metrics/spans.h"
#include "application/metrics/squad.h"
#include "core/base/error.h"
#include "core/base/rng.h"

// Closed forms and properties; equality with the reference implementations is in golden_test.cpp.
namespace chorus::inline metrics {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using Strings = std::vector<std::string>;

TEST(Classification, CountsByHand) {
  Classification metric({.labels = {"no", "yes"}, .positive = "yes"});
  const std::vector<std::int64_t> predictions{1, 1, 0, 0, 1}, references{1, 0, 0, 1, 1};
  metric.add(predictions, references);
  const Scores scores = metric.scores();
  EXPECT_DOUBLE_EQ(scores.at("accuracy"), 0.6);
  EXPECT_DOUBLE_EQ(scores.at("precision"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(scores.at("recall"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(scores.at("f1/no"), 0.5);
  EXPECT_DOUBLE_EQ(scores.at("macro_f1"), (2.0 / 3 + 0.5) / 2);
  // Binary Matthews: (tp tn - fp fn) / sqrt(...)
  EXPECT_DOUBLE_EQ(scores.at("matthews"), (2.0 * 1 - 1 * 1) / std::sqrt(3.0 * 3 * 2 * 2));
}

TEST(Classification, LabelsThatNeverOccurDoNotCount) {
  Classification metric({.labels = {"a", "b", "never"}, .positive = "never"});
  metric.add("a", "a");
  metric.add("b", "b");
  const Scores scores = metric.scores();
  EXPECT_DOUBLE_EQ(scores.at("macro_f1"), 1);
  EXPECT_DOUBLE_EQ(scores.at("f1"), 0);
  EXPECT_FALSE(scores.contains("f1/never"));
}

TEST(Classification, RefusesIdsWithoutName) {
  Classification metric({.labels = {"a"}, .positive = {}});
  const std::vector<std::int64_t> bad{1}, good{0}, none;
  EXPECT_THROW(metric.add(bad, good), InternalError);
  EXPECT_THROW(metric.add(good, none), InternalError);
}

TEST(EmptyMetrics, HaveUndefinedScoresAndDoNotFail) {
  EXPECT_TRUE(std::isnan(Classification().scores().at("accuracy")));
  EXPECT_TRUE(std::isnan(Correlation().scores().at("pearson")));
  EXPECT_TRUE(std::isnan(SquadF1().scores().at("f1")));
  EXPECT_TRUE(std::isnan(Rouge().scores().at("rougeL")));
  EXPECT_TRUE(std::isnan(Perplexity().scores().at("perplexity")));
  EXPECT_EQ(SpanF1().scores().at("f1"), 0);
  EXPECT_EQ(SpanF1().scores().at("examples"), 0);
  EXPECT_TRUE(std::isnan(bootstrap(Perplexity(Keep::kUnits), {}).at("perplexity").low));
}

TEST(Correlation, ByHandWithTiesAndUndefined) {
  const std::vector<double> x{1, 2, 2, 4}, y{1, 3, 2, 4}, constant{5, 5, 5, 5};
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  // Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4.
  EXPECT_NEAR(spearman(x, y), 4.5 / std::sqrt(4.5 * 5), 1e-15);
  EXPECT_TRUE(std::isnan(pearson(x, constant)));
  EXPECT_TRUE(std::isnan(spearman(constant, y)));
  EXPECT_TRUE(std::isnan(pearson({{1.0}}, {{1.0}})));
  EXPECT_TRUE(std::isnan(pearson({{1.0, nan, 2.0}}, {{1.0, 2.0, 3.0}})));
  EXPECT_TRUE(std::isnan(spearman({{1.0, nan, 2.0}}, {{1.0, 2.0, 3.0}})));
  EXPECT_TRUE(std::isnan(pearson({{1.0, infinity, 2.0}}, {{1.0, 2.0, 3.0}})));
  EXPECT_NEAR(spearman({{1.0, infinity, 2.0}}, {{1.0, 3.0, 2.0}}), 1, 1e-15);
  EXPECT_NEAR(pearson({{1e300, -1e300, 5e299}}, {{1.0, -1.0, 0.5}}), 1, 1e-12);
}

TEST(Correlation, WeightsAreRepetitions) {
  const std::vector<double> x{1, 4, 2, 2, 9}, y{2, 1, 5, 5, 7};
  const std::vector<std::uint32_t> times{2, 0, 1, 3, 1};
  std::vector<double> repeated_x, repeated_y;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::uint32_t t = 0; t < times[i]; ++t) {
      repeated_x.push_back(x[i]);
      repeated_y.push_back(y[i]);
    }
  EXPECT_NEAR(pearson(x, y, times), pearson(repeated_x, repeated_y), 1e-14);
  EXPECT_NEAR(spearman(x, y, times), spearman(repeated_x, repeated_y), 1e-14);
}

TEST(Spans, LenientAndStrictDiffer) {
  const Strings tags{"I-PER", "I-PER", "O", "B-LOC", "I-PER", "S-ORG", "E-ORG"};
  EXPECT_THAT(spans_of(tags, SpanScheme::kLenient), ElementsAre(Span{"PER", 0, 1}, Span{"LOC", 3, 3}, Span{"PER", 4, 4},
                                                                Span{"ORG", 5, 5}, Span{"ORG", 6, 6}));
  const Strings iob{"I-PER", "I-PER", "O", "B-LOC", "I-PER", "B-LOC", "I-LOC"};
  EXPECT_THAT(spans_of(iob, SpanScheme::kIob2), ElementsAre(Span{"LOC", 3, 3}, Span{"LOC", 5, 6}));
  EXPECT_THROW(spans_of(tags, SpanScheme::kIob2), DataError);
  EXPECT_THROW(spans_of(Strings{"B-PER", ""}, SpanScheme::kLenient), DataError);
}

TEST(Spans, UnequalSentencesAreRefused) {
  SpanF1 metric;
  EXPECT_THROW(metric.add(Strings{"O"}, Strings{"O", "O"}), DataError);
}

TEST(Squad, NormalisationAndVersions) {
  EXPECT_EQ(normalize_answer("The  Eiffel-Tower, in\u00A0an A.C. the"), "eiffeltower in ac");
  EXPECT_EQ(normalize_answer("ath\u00E9 \u00E9a a\u0301"), "ath\u00E9 \u00E9a \u0301");  // accents as marks end a word
  const Strings the{"the"}, none;
  EXPECT_EQ(score_answer("a", the, SquadVersion::kV1).exact, 1);
  EXPECT_EQ(score_answer("a", the, SquadVersion::kV1).f1, 0);
  EXPECT_EQ(score_answer("", none, SquadVersion::kV1).exact, 0);
  EXPECT_EQ(score_answer("", none, SquadVersion::kV2).f1, 1);
  EXPECT_EQ(score_answer("x", none, SquadVersion::kV2).f1, 0);
  const Strings golds{"in Paris", "Paris"};
  EXPECT_EQ(score_answer("paris!", golds, SquadVersion::kV1).exact, 1);
  EXPECT_DOUBLE_EQ(score_answer("Paris Texas", golds, SquadVersion::kV1).f1, 2.0 / 3);

  SquadF1 metric(SquadVersion::kV2);
  metric.add("Paris", golds);
  metric.add("something", none);
  metric.add_missing(none);
  const Scores scores = metric.scores();
  EXPECT_DOUBLE_EQ(scores.at("exact_match"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(scores.at("has_answer_f1"), 1);
  EXPECT_DOUBLE_EQ(scores.at("no_answer_f1"), 0);
}

TEST(Rouge, FednlpWorkedValues) {
  EXPECT_NEAR(fednlp_rouge_l("the cat sat", Strings{"the cat sat on the mat"}), 0.62886598, 5e-9);
  EXPECT_NEAR(fednlp_rouge_l("a b c d", Strings{"a c d e f"}), 0.65357143, 5e-9);
  EXPECT_EQ(fednlp_rouge_l("The", Strings{"the"}), 0);
  EXPECT_EQ(fednlp_rouge_l("", Strings{""}), 1);  // one empty word on either side
  const std::vector<double> values{1, 1, 1, 1, 0};
  EXPECT_DOUBLE_EQ(mean_of_batch_means(values, 4), 0.5);
  EXPECT_DOUBLE_EQ(mean_of_batch_means(values, 100), 0.8);
}

TEST(Rouge, LongTextsNeedLittleMemory) {
  std::string text, other;
  for (int i = 0; i < 4000; ++i) {
    text += std::to_string(i) + " ";
    other += std::to_string(i % 2 ? i : -i - 1) + "x ";
  }
  const RougeScores scores = rouge(text, Strings{text}, false);
  EXPECT_EQ(scores.rouge_l.f1, 1);
  EXPECT_EQ(scores.rouge_lsum.f1, 1);
  EXPECT_EQ(rouge(other, Strings{text}, false).rouge1.f1, 0);
}

TEST(Porter, IrregularAndShortWords) {
  EXPECT_EQ(porter_stem("dying"), "die");
  EXPECT_EQ(porter_stem("news"), "news");
  EXPECT_EQ(porter_stem("is"), "is");
  EXPECT_EQ(porter_stem(""), "");
  EXPECT_EQ(porter_stem("generalizations"), "gener");
  EXPECT_EQ(porter_stem(std::string(100000, 'y')).size(), 100000U);
}

TEST(Perplexity, PoolsTokens) {
  Perplexity metric;
  metric.add(10, 4);
  metric.add(2, 8);
  EXPECT_DOUBLE_EQ(metric.scores().at("perplexity"), std::exp(1.0));
  EXPECT_DOUBLE_EQ(metric.scores().at("loss"), 1);
  Perplexity huge;
  huge.add(1e6, 1);
  EXPECT_TRUE(std::isinf(huge.scores().at("perplexity")));
  EXPECT_DOUBLE_EQ(relative_change(110, 100), 10);
}

TEST(Merge, AnyCutGivesTheSameScores) {
  RandomStream stream({.seed = 3, .purpose = "test"});
  Classification whole({}, Keep::kUnits), left({}, Keep::kUnits), right({}, Keep::kUnits);
  for (int i = 0; i < 500; ++i) {
    const std::string p = std::to_string(stream.below(7)), r = std::to_string(stream.below(6));
    whole.add(p, r);
    (stream.below(3) == 0 ? left : right).add(p, r);
  }
  left.merge(right);
  EXPECT_EQ(left.scores(), whole.scores());
  EXPECT_EQ(left.units(), 500U);
  EXPECT_EQ(left.scores(std::vector<std::uint32_t>(500, 1)), whole.scores());
  EXPECT_THROW(left.merge(Perplexity()), InternalError);
  EXPECT_THROW(left.merge(Classification({.labels = {}, .positive = "1"}, Keep::kUnits)), InternalError);
  EXPECT_THROW(left.merge(Classification()), InternalError);
  EXPECT_THROW(left.merge(left), InternalError);
}

TEST(Bootstrap, QuantilesAreNumpys) {
  const std::vector<double> values{1, 2, 4, 8};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 6.8);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 8);
}

TEST(Bootstrap, FindsTheBinomialIntervalAndRepeats) {
  Classification metric({}, Keep::kUnits);
  for (int i = 0; i < 1000; ++i) metric.add(i % 5 ? "a" : "b", "a");  // accuracy 0.8
  const Interval interval = bootstrap(metric, {.resamples = 2000}).at("accuracy");
  const double deviation = std::sqrt(0.8 * 0.2 / 1000);
  EXPECT_NEAR(interval.low, 0.8 - 1.96 * deviation, 0.003);
  EXPECT_NEAR(interval.high, 0.8 + 1.96 * deviation, 0.003);
  const Interval half = bootstrap(metric, {.resamples = 2000, .confidence = 0.5}).at("accuracy");
  EXPECT_NEAR(half.high - half.low, 2 * 0.6745 * deviation, 0.002);

  const Interval again = bootstrap(metric, {.resamples = 2000}).at("accuracy");
  EXPECT_EQ(interval.low, again.low);
  EXPECT_EQ(interval.high, again.high);
  const auto other = bootstrap(metric, {.resamples = 50, .seed = 1}).at("accuracy");
  EXPECT_TRUE(other.low != bootstrap(metric, {.resamples = 50, .seed = 2}).at("accuracy").low ||
              other.low != interval.low);

  EXPECT_THROW(bootstrap(metric, {.confidence = 1}), ConfigError);
  EXPECT_THROW(bootstrap(metric, {.confidence = std::nan("")}), ConfigError);
  EXPECT_THROW(bootstrap(metric, {.resamples = 0}), ConfigError);
  Classification forgetful;
  forgetful.add("a", "a");
  EXPECT_THROW(bootstrap(forgetful, {}), InternalError);
}

// Clients with identical examples: the spread between clients counts, not the number of examples.
TEST(Breakdown, ResamplingClientsIsWiderThanExamples) {
  Breakdown breakdown(std::make_unique<Classification>());
  Classification pooled({}, Keep::kUnits);
  for (int c = 0; c < 40; ++c)
    for (int i = 0; i < 50; ++i) {
      const std::string prediction = c % 2 ? "a" : "b";
      static_cast<Classification&>(breakdown.client("client " + std::to_string(c))).add(prediction, "a");
      pooled.add(prediction, "a");
    }
  const GroupScores all = breakdown.overall(BootstrapOptions{});
  EXPECT_EQ(all.clients, 40U);
  EXPECT_DOUBLE_EQ(all.scores.at("accuracy"), 0.5);
  const Interval by_client = all.intervals.at("accuracy"), by_example = bootstrap(pooled, {}).at("accuracy");
  EXPECT_NEAR(by_client.high - by_client.low, 2 * 1.96 * 0.5 / std::sqrt(40), 0.04);
  EXPECT_NEAR(by_example.high - by_example.low, 2 * 1.96 * 0.5 / std::sqrt(2000), 0.006);
}

TEST(Breakdown, DecilesOfActivity) {
  Breakdown breakdown(std::make_unique<Perplexity>());
  for (int c = 0; c < 25; ++c)
    for (int i = 0; i <= c; ++i) static_cast<Perplexity&>(breakdown.client("device " + std::to_string(c))).add(c, 1);
  const auto deciles = breakdown.by_decile();
  ASSERT_EQ(deciles.size(), 10U);
  std::size_t clients = 0;
  double examples = 0;
  for (const GroupScores& decile : deciles) {
    clients += decile.clients;
    examples += decile.scores.at("examples");
  }
  EXPECT_EQ(clients, 25U);
  EXPECT_EQ(examples, 25 * 26 / 2);
  EXPECT_EQ(deciles[0].name, "decile 1");
  EXPECT_EQ(deciles[0].clients, 2U);  // devices 0 and 1, with 1 and 2 texts
  EXPECT_DOUBLE_EQ(deciles[0].scores.at("loss"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(deciles[9].scores.at("loss"), (22.0 * 23 + 23 * 24 + 24 * 25) / (23 + 24 + 25));

  breakdown.set_activity("device 0", 1e9);  // measured elsewhere: now the most active
  EXPECT_GT(breakdown.by_decile()[0].scores.at("loss"), 1);

  const auto groups = breakdown.by_group([](const std::string& name) { return name.size() == 8 ? "few" : "many"; });
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].name, "few");
  EXPECT_EQ(groups[0].clients, 10U);

  Breakdown three(std::make_unique<Perplexity>());
  for (const char* name : {"x", "y", "z"}) static_cast<Perplexity&>(three.client(name)).add(1, 1);
  EXPECT_EQ(three.by_decile().size(), 3U);
  EXPECT_TRUE(Breakdown(std::make_unique<Perplexity>()).by_decile().empty());
}

TEST(Breakdown, MergesWhatSeveralServersSaw) {
  Breakdown one(std::make_unique<Perplexity>()), two(std::make_unique<Perplexity>());
  static_cast<Perplexity&>(one.client("a")).add(1, 1);
  static_cast<Perplexity&>(two.client("a")).add(3, 1);
  static_cast<Perplexity&>(two.client("b")).add(5, 1);
  one.merge(two);
  const auto clients = one.by_client();
  ASSERT_EQ(clients.size(), 2U);
  EXPECT_DOUBLE_EQ(clients[0].scores.at("loss"), 2);
  EXPECT_DOUBLE_EQ(one.overall().scores.at("loss"), 3);
}

}  // namespace
}  // namespace chorus::inline metrics
