#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "application/metrics/classification.h"
#include "application/metrics/correlation.h"
#include "application/metrics/porter_stemmer.h"
#include "application/metrics/python_text.h"
#include "application/metrics/rouge.h"
#include "application/metrics/spans.h"
#include "application/metrics/squad.h"

// Every case of tests/golden/metrics.jsonl (made by make_metrics.py from scikit-learn, scipy, seqeval, rouge-score,
// nltk and the official SQuAD scripts), or of the file that CHORUS_METRICS_GOLDEN names.
namespace chorus::inline metrics {
namespace {

using nlohmann::json;
using Strings = std::vector<std::string>;

bool close(double ours, const json& theirs) {
  if (theirs.is_null()) return std::isnan(ours);
  const double value = theirs.get<double>();
  return std::abs(ours - value) <= 1e-12 * std::max(1.0, std::abs(value));
}

// Feeds the items to two metrics, merges them, and compares the scores that the case names.
template <typename M, typename Add>
bool agrees(M first, M second, std::size_t items, const json& expect, Add&& add) {
  for (std::size_t i = 0; i < items; ++i) add(i < items / 2 ? first : second, i);
  first.merge(second);
  const Scores scores = first.scores();
  for (const auto& [name, value] : expect.items()) {
    const auto found = scores.find(name);
    if (found == scores.end() || !close(found->second, value)) return false;
  }
  // No class outside the reference.
  for (const auto& [name, value] : scores)
    if (name.find('/') != name.npos && !expect.contains(name)) return false;
  return true;
}

bool rouge_agrees(const RougeScore& ours, const json& theirs) {
  return close(ours.precision, theirs[0]) && close(ours.recall, theirs[1]) && close(ours.f1, theirs[2]);
}

bool check_case(const json& c) {
  const std::string kind = c.at("kind");
  const json& expect = c.at("expect");
  if (kind == "lower") return python_text::lower(c.at("text").get<std::string>()) == expect.get<std::string>();
  if (kind == "stem") return porter_stem(c.at("word").get<std::string>()) == expect.get<std::string>();
  if (kind == "classification") {
    ClassificationOptions options;
    if (c.contains("positive")) options.positive = c.at("positive").get<std::string>();
    const Strings predictions = c.at("predictions"), references = c.at("references");
    return agrees(Classification(options), Classification(options), references.size(), expect,
                  [&](Classification& m, std::size_t i) { m.add(predictions[i], references[i]); });
  }
  if (kind == "correlation") {
    const std::vector<double> x = c.at("x"), y = c.at("y");
    const auto near = [](double ours, const json& theirs) {  // ours and scipy's differ in the order of summation
      return theirs.is_null() ? std::isnan(ours) : std::abs(ours - theirs.get<double>()) <= 1e-9;
    };
    return near(pearson(x, y), expect.at("pearson")) && near(spearman(x, y), expect.at("spearman"));
  }
  if (kind == "spans") {
    const SpanScheme scheme = c.at("scheme") == "iob2" ? SpanScheme::kIob2 : SpanScheme::kLenient;
    const std::vector<Strings> predictions = c.at("predictions"), references = c.at("references");
    return agrees(SpanF1(scheme), SpanF1(scheme), references.size(), expect,
                  [&](SpanF1& m, std::size_t i) { m.add(predictions[i], references[i]); });
  }
  const std::string prediction = c.at("prediction");
  if (kind == "squad_v1" || kind == "squad_v2") {
    const Strings golds = c.at("golds");
    const SquadVersion version = kind == "squad_v1" ? SquadVersion::kV1 : SquadVersion::kV2;
    json scores = expect;
    if (scores.contains("normalized")) {
      if (normalize_answer(prediction) != scores.at("normalized").get<std::string>()) return false;
      scores.erase("normalized");
    }
    return agrees(SquadF1(version), SquadF1(version), 1, scores,
                  [&](SquadF1& m, std::size_t) { m.add(prediction, golds); });
  }
  const Strings references = c.at("references");
  if (kind == "fednlp_rouge") return close(fednlp_rouge_l(prediction, references), expect);
  const RougeScores ours = rouge(prediction, references, c.at("stem"));
  return rouge_agrees(ours.rouge1, expect.at("rouge1")) && rouge_agrees(ours.rouge2, expect.at("rouge2")) &&
         rouge_agrees(ours.rouge_l, expect.at("rougeL")) && rouge_agrees(ours.rouge_lsum, expect.at("rougeLsum"));
}

TEST(MetricsGolden, EveryCaseEqualsTheReference) {
  const char* other = std::getenv("CHORUS_METRICS_GOLDEN");
  const std::string path = other ? other : CHORUS_SOURCE_DIR "/tests/golden/metrics.jsonl";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::map<std::string, std::pair<int, int>> counts;  // cases, mismatches
  for (std::string line; std::getline(file, line);) {
    const json c = json::parse(line);
    auto& [cases, mismatches] = counts[c.at("kind")];
    ++cases;
    if (check_case(c)) continue;
    if (++mismatches <= 3) ADD_FAILURE() << line;
  }
  for (const char* kind :
       {"classification", "correlation", "spans", "squad_v1", "squad_v2", "rouge", "fednlp_rouge", "stem", "lower"}) {
    const auto [cases, mismatches] = counts[kind];
    EXPECT_GE(cases, 50) << kind;
    EXPECT_EQ(mismatches, 0) << kind;
    if (other) printf("%-15s %6d cases, %d mismatches\n", kind, cases, mismatches);
  }
}

}  // namespace
}  // namespace chorus::inline metrics
