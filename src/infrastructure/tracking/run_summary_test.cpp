#include "infrastructure/tracking/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline tracking {
namespace {

using SummaryJson = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

RunSummary full_summary() {
  RunSummary summary;
  summary.status = "target_reached";
  summary.algorithm = "fedprox";
  summary.metric = "perplexity";
  summary.higher_is_better = false;
  summary.target = 20.5;
  summary.rounds_to_target = 7;
  summary.rounds = 8;
  summary.best_round = 6;
  summary.last = {{"perplexity", 21.25}, {"undefined", std::nan("")}};
  summary.best = {{"perplexity", 20.25}};
  summary.examples = 1e6;
  summary.bytes_up = 3e9;
  summary.bytes_down = 4e9;
  summary.seconds = 12.5;
  summary.parts = {
      .setup = 1, .training = 2, .evaluation = 3, .checkpoints = 4, .checkpoints_background = 6, .saving = 5};
  summary.emulated = EmulatedTotals{1, 2, 3, 4, 5};
  summary.targets = {{30, Milestone{2, 29, 3, 4, {6, 7, 8, 9, 10}}, std::nullopt}, {1, std::nullopt, std::nullopt}};
  summary.phases = {{"June", 1, 4, {{"a", 1}}, {{"a", 2}}}};
  summary.deciles = {{"decile 1", 3, {{"a", 0.5}}}};
  return summary;
}

TEST(RunSummary, EveryFieldIsWrittenUnderItsName) {
  // docs/reference/formats.md documents the names; programs read them.
  const SummaryJson file = SummaryJson::parse(to_json(full_summary()));
  const SummaryJson expected = SummaryJson::parse(R"({"format": 1, "status": "target_reached", "algorithm": "fedprox",
    "metric": "perplexity", "higher_is_better": false, "target": 20.5, "rounds_to_target": 7, "rounds": 8,
    "best_round": 6, "last": {"perplexity": 21.25, "undefined": null}, "best": {"perplexity": 20.25},
    "examples": 1e6, "bytes_up": 3e9, "bytes_down": 4e9, "seconds": 12.5, "setup_seconds": 1.0,
    "train_seconds": 2.0, "evaluation_seconds": 3.0, "checkpoint_seconds": 4.0,
    "checkpoint_background_seconds": 6.0, "save_seconds": 5.0, "emulated_seconds": 1.0,
    "emulated_joules": 2.0, "client_joules": 3.0, "client_bytes": 4.0, "client_memory": 5.0,
    "targets": [{"target": 30.0, "reached": {"round": 2, "score": 29.0, "seconds": 3.0, "bytes": 4.0,
                 "emulated_seconds": 6.0, "emulated_joules": 7.0, "client_joules": 8.0, "client_bytes": 9.0,
                 "client_memory": 10.0}, "before": null}, {"target": 1.0, "reached": null, "before": null}],
    "phases": [{"name": "June", "first_round": 1, "rounds": 4, "last": {"a": 1.0}, "best": {"a": 2.0}}],
    "deciles": [{"name": "decile 1", "clients": 3, "scores": {"a": 0.5}}]})");
  EXPECT_EQ(file, expected);
}

TEST(RunSummary, RoundTrips) {
  const RunSummary back = parse_run_summary(to_json(full_summary()), "s");
  EXPECT_EQ(to_json(back), to_json(full_summary()));
  EXPECT_TRUE(std::isnan(back.last.at("undefined")));
  EXPECT_EQ(back.targets.at(0).reached->emulated.memory, 10);
  const RunSummary plain = parse_run_summary(to_json(RunSummary{}), "s");
  EXPECT_FALSE(plain.target || plain.rounds_to_target || plain.emulated);
  EXPECT_TRUE(plain.targets.empty() && plain.phases.empty() && plain.deciles.empty());
}

TEST(RunSummary, EveryMissingOrMistypedFieldIsRefused) {
  const SummaryJson whole = SummaryJson::parse(to_json(full_summary()));
  for (const char* name : {"status", "algorithm", "metric", "higher_is_better", "rounds", "best_round", "last", "best",
                           "examples", "bytes_up", "bytes_down", "seconds"}) {
    SummaryJson cut = whole;
    cut.erase(name);
    EXPECT_THAT(message_of<DataError>([&] { (void)parse_run_summary(cut.dump(), "s.json"); }),
                AllOf(HasSubstr("s.json"), HasSubstr(name)));
    cut[name] = SummaryJson::array();
    EXPECT_THROW((void)parse_run_summary(cut.dump(), "s.json"), DataError) << name;
  }
  for (const char* name : {"targets", "phases", "deciles"}) {
    SummaryJson bad = whole;
    bad[name] = {{{"name", "x"}}};
    EXPECT_THROW((void)parse_run_summary(bad.dump(), "s.json"), DataError) << name;
  }
  SummaryJson other = whole;
  other["format"] = 2;
  EXPECT_THAT(message_of<DataError>([&] { (void)parse_run_summary(other.dump(), "s.json"); }), HasSubstr("format 2"));
  for (const char* text : {"", "[]", "{}", "{\"format\": 1", "null"}) {
    EXPECT_THROW((void)parse_run_summary(text, "s.json"), DataError) << text;
  }
}

TEST(RunSummary, AnUnfinishedRunHasNone) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_run_summary(folder.path()).has_value());
  std::ofstream(folder / "summary.json") << to_json(full_summary());
  EXPECT_EQ(read_run_summary(folder.path())->rounds, 8);
}

}  // namespace
}  // namespace chorus::inline tracking
