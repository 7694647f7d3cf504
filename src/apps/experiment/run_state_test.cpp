#include "apps/experiment/run_state.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline experiment {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const double kNan = std::nan("");

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b; }

void expect_scores(const Scores& got, const Scores& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_TRUE(same(got.at(name), value)) << name << ": " << got.at(name) << " instead of " << value;
  }
}

void expect_milestone(const std::optional<Milestone>& got, const std::optional<Milestone>& expected) {
  ASSERT_EQ(got.has_value(), expected.has_value());
  if (!expected) return;
  EXPECT_EQ(got->round, expected->round);
  EXPECT_TRUE(same(got->score, expected->score)) << got->score;
  EXPECT_EQ(got->seconds, expected->seconds);
  EXPECT_EQ(got->bytes, expected->bytes);
  EXPECT_EQ(got->emulated.seconds, expected->emulated.seconds);
  EXPECT_EQ(got->emulated.joules, expected->emulated.joules);
  EXPECT_EQ(got->emulated.client_joules, expected->emulated.client_joules);
  EXPECT_EQ(got->emulated.client_bytes, expected->emulated.client_bytes);
  EXPECT_EQ(got->emulated.memory, expected->emulated.memory);
}

Milestone milestone_with(double score) { return {5, score, 1.25, 1e15 + 1, {0.1, 0.2, 0.3, 4e9, 5e8}}; }

/// Every field has a distinct value.
RunState full_state() {
  RunState state;
  RoundLoopState& loop = state.loop;
  loop.round = 17;
  loop.model = at::arange(6, at::kFloat);
  loop.best_model = at::arange(6, at::kFloat) * 2;
  loop.last = {{"accuracy", 1.0 / 3}, {"perplexity", HUGE_VAL}, {"undefined", kNan}};
  loop.best = {{"accuracy", 0.7}, {"nested/name", -0.0}};
  loop.best_round = 11;
  loop.best_variant = {.depth = 3, .width = 24};
  loop.rounds_to_target = 16;
  loop.examples = 123456789;
  loop.bytes_up = 1e12 + 1;
  loop.bytes_down = 2e12 + 3;
  loop.seconds = 0.1 + 0.2;
  loop.emulated = {10.5, 20.5, 30.5, 40.5, 50.5};
  loop.targets = {{0.5, milestone_with(0.55), milestone_with(0.45)}, {0.9, std::nullopt, std::nullopt}};
  loop.last_evaluation = milestone_with(0.6);
  loop.deciles = {{"decile 1", 7, {{"accuracy", 0.25}, {"f1", kNan}}}, {"decile 10", 8, {}}};
  state.phase = 2;
  state.variant = {.depth = 4, .width = 32};
  state.phases = {{"June", 1, 8, {{"perplexity", -HUGE_VAL}}, {{"perplexity", 2}}}, {"July \"ü\"", 9, 3, {}, {}}};
  state.server = {{"velocity", at::ones({6})}, {"steps", at::full({}, 12, at::kLong)}};
  state.filters = {{"train/update/error", at::full({6}, 0.5)}};
  state.coverage = {0, 3, 2147483647};
  state.coverage_rounds = 17;
  state.data = "0123456789abcdef";
  return state;
}

TEST(RunState, EveryFieldRoundTrips) {
  const RunState state = full_state();
  const RunState back = to_run_state(to_checkpoint(state));
  const RoundLoopState &loop = back.loop, &expected = state.loop;
  EXPECT_EQ(loop.round, 17);
  EXPECT_TRUE(at::equal(loop.model, expected.model));
  EXPECT_TRUE(at::equal(loop.best_model, expected.best_model));
  expect_scores(loop.last, expected.last);
  expect_scores(loop.best, expected.best);
  EXPECT_TRUE(std::signbit(loop.best.at("nested/name")));
  EXPECT_EQ(loop.best_round, 11);
  EXPECT_EQ(loop.best_variant, (Variant{3, 24}));
  EXPECT_EQ(loop.rounds_to_target, 16);
  EXPECT_EQ(loop.examples, 123456789);
  EXPECT_EQ(loop.bytes_up, 1e12 + 1);
  EXPECT_EQ(loop.bytes_down, 2e12 + 3);
  EXPECT_EQ(loop.seconds, 0.1 + 0.2);
  EXPECT_EQ(loop.emulated.seconds, 10.5);
  EXPECT_EQ(loop.emulated.joules, 20.5);
  EXPECT_EQ(loop.emulated.client_joules, 30.5);
  EXPECT_EQ(loop.emulated.client_bytes, 40.5);
  EXPECT_EQ(loop.emulated.memory, 50.5);
  ASSERT_EQ(loop.targets.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(loop.targets[i].target, expected.targets[i].target);
    expect_milestone(loop.targets[i].reached, expected.targets[i].reached);
    expect_milestone(loop.targets[i].before, expected.targets[i].before);
  }
  expect_milestone(loop.last_evaluation, expected.last_evaluation);
  ASSERT_EQ(loop.deciles.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(loop.deciles[i].name, expected.deciles[i].name);
    EXPECT_EQ(loop.deciles[i].clients, expected.deciles[i].clients);
    expect_scores(loop.deciles[i].scores, expected.deciles[i].scores);
  }
  EXPECT_EQ(back.phase, 2);
  EXPECT_EQ(back.variant, (Variant{4, 32}));
  ASSERT_EQ(back.phases.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(back.phases[i].name, state.phases[i].name);
    EXPECT_EQ(back.phases[i].first_round, state.phases[i].first_round);
    EXPECT_EQ(back.phases[i].rounds, state.phases[i].rounds);
    expect_scores(back.phases[i].last, state.phases[i].last);
    expect_scores(back.phases[i].best, state.phases[i].best);
  }
  ASSERT_EQ(back.server.size(), 2U);
  EXPECT_TRUE(at::equal(back.server.at("velocity"), state.server.at("velocity")));
  EXPECT_EQ(back.server.at("steps").item<std::int64_t>(), 12);
  ASSERT_EQ(back.filters.size(), 1U);
  EXPECT_TRUE(at::equal(back.filters.at("train/update/error"), state.filters.at("train/update/error")));
  EXPECT_THAT(back.coverage, ElementsAre(0, 3, 2147483647));
  EXPECT_EQ(back.coverage_rounds, 17U);
  EXPECT_EQ(back.data, state.data);
}

TEST(RunState, RoundTripsThroughAFile) {
  const TemporaryFolder folder;
  CheckpointStore store(folder / "checkpoints");
  store.save(to_checkpoint(full_state()));
  const RunState back = to_run_state(*store.latest());
  expect_scores(back.loop.last, full_state().loop.last);
  expect_milestone(back.loop.last_evaluation, full_state().loop.last_evaluation);
  EXPECT_EQ(back.phases[1].name, "July \"ü\"");
}

TEST(RunState, TheBestModelIsNotWrittenTwice) {
  RunState state = full_state();
  state.loop.best_round = state.loop.round;
  state.loop.best_model = state.loop.model.clone();
  const Checkpoint checkpoint = to_checkpoint(state);
  EXPECT_FALSE(checkpoint.tensors.contains("best_model"));
  RunState back = to_run_state(checkpoint);
  EXPECT_TRUE(at::equal(back.loop.best_model, state.loop.model));
  back.loop.model.add_(1);  // the next round
  EXPECT_TRUE(at::equal(back.loop.best_model, state.loop.best_model));
}

TEST(RunState, AFreshRunHasNoOptionalFields) {
  RunState state;
  state.loop.model = at::zeros({1});
  const Checkpoint checkpoint = to_checkpoint(state);
  EXPECT_FALSE(checkpoint.tensors.contains("best_model"));
  EXPECT_FALSE(checkpoint.numbers.contains("rounds_to_target"));
  const RunState back = to_run_state(checkpoint);
  EXPECT_FALSE(back.loop.best_model.defined());
  EXPECT_FALSE(back.loop.rounds_to_target.has_value());
  EXPECT_FALSE(back.loop.last_evaluation.has_value());
  EXPECT_TRUE(back.loop.last.empty() && back.loop.best.empty() && back.phases.empty() && back.server.empty());
  EXPECT_EQ(back.variant, Variant{});
}

// An overflowing perplexity is infinite; such a run must stay resumable.
TEST(RunState, ScoresThatAreNotFiniteRoundTrip) {
  for (const double score : {HUGE_VAL, -HUGE_VAL, kNan}) {
    RunState state = full_state();
    state.loop.last_evaluation = milestone_with(score);
    state.loop.targets = {{score, milestone_with(score), milestone_with(-score)}};
    state.loop.deciles = {{"d", 1, {{"s", score}}}};
    state.phases = {{"p", 1, 1, {{"s", score}}, {{"s", -score}}}};
    const RunState back = to_run_state(to_checkpoint(state));
    expect_milestone(back.loop.last_evaluation, state.loop.last_evaluation);
    EXPECT_TRUE(same(back.loop.targets.at(0).target, score));
    expect_milestone(back.loop.targets.at(0).reached, state.loop.targets[0].reached);
    expect_milestone(back.loop.targets.at(0).before, state.loop.targets[0].before);
    expect_scores(back.loop.deciles.at(0).scores, {{"s", score}});
    expect_scores(back.phases.at(0).last, {{"s", score}});
    expect_scores(back.phases.at(0).best, {{"s", -score}});
  }
}

TEST(RunState, EveryMissingFieldIsNamed) {
  const Checkpoint whole = to_checkpoint(full_state());
  for (const auto& [name, value] : whole.numbers) {
    // Scores may vary; whether the target was reached and the best model are optional.
    if (name.starts_with("last/") || name.starts_with("best/") || name == "rounds_to_target") continue;
    Checkpoint cut = whole;
    cut.numbers.erase(name);
    EXPECT_THAT(message_of<DataError>([&] { (void)to_run_state(cut); }), HasSubstr("no number \"" + name + "\""));
  }
  for (const auto& [name, value] : whole.texts) {
    Checkpoint cut = whole;
    cut.texts.erase(name);
    EXPECT_THAT(message_of<DataError>([&] { (void)to_run_state(cut); }), HasSubstr("no text \"" + name + "\""));
  }
  for (const std::string name : {"model", "coverage"}) {
    Checkpoint cut = whole;
    cut.tensors.erase(name);
    EXPECT_THAT(message_of<DataError>([&] { (void)to_run_state(cut); }), HasSubstr("no tensor \"" + name + "\""));
  }
}

TEST(RunState, AnUnknownFieldIsNamed) {
  const Checkpoint whole = to_checkpoint(full_state());
  const auto refused = [](const Checkpoint& checkpoint) {
    return message_of<DataError>([&] { (void)to_run_state(checkpoint); });
  };
  Checkpoint more = whole;
  more.tensors["momentum"] = at::zeros({1});
  EXPECT_THAT(refused(more), AllOf(HasSubstr("tensor \"momentum\""), HasSubstr("does not know")));
  more = whole;
  more.numbers["temperature"] = 1;
  EXPECT_THAT(refused(more), HasSubstr("number \"temperature\""));
  more = whole;
  more.texts["motto"] = "";
  EXPECT_THAT(refused(more), HasSubstr("text \"motto\""));
}

TEST(RunState, MalformedFieldsAreRefused) {
  const Checkpoint whole = to_checkpoint(full_state());
  const auto refused = [&](const auto& edit) {
    Checkpoint bad = whole;
    edit(bad);
    return message_of<DataError>([&] { (void)to_run_state(bad); });
  };
  for (const char* name : {"best_round", "coverage_rounds", "rounds_to_target"}) {
    for (const double value : {-1.0, 0.5, kNan, HUGE_VAL, 1e300}) {
      EXPECT_THAT(refused([&](Checkpoint& bad) { bad.numbers[name] = value; }),
                  AllOf(HasSubstr(name), HasSubstr("no count")));
    }
  }
  for (const at::Tensor& counts : {at::full({2}, -1, at::kInt), at::zeros({2}), at::zeros({2, 2}, at::kInt)}) {
    EXPECT_THAT(refused([&](Checkpoint& bad) { bad.tensors["coverage"] = counts; }), HasSubstr("coverage"));
  }
  const std::pair<const char*, const char*> texts[] = {{"deciles", "[{"},
                                                       {"deciles", R"([{"name": "a"}])"},
                                                       {"deciles", R"([{"name": 1, "clients": 1, "scores": {}}])"},
                                                       {"phases", R"([{"name": "a", "first_round": "x"}])"},
                                                       {"phases", "[3]"},
                                                       {"targets", R"([{"target": 1}])"},
                                                       {"targets", R"([{"target": 1, "reached": {}, "before": null}])"},
                                                       {"last_evaluation", ""},
                                                       {"last_evaluation", R"({"round": 1})"}};
  for (const auto& [name, text] : texts) {
    EXPECT_THAT(refused([&](Checkpoint& bad) { bad.texts[name] = text; }), HasSubstr("cannot be read")) << text;
  }
}

TEST(RunState, APhaseIsSummarizedByTheRoundsItRan) {
  RoundLoopState loop;
  loop.last = {{"accuracy", 0.5}};
  loop.best = {{"accuracy", 0.6}};
  // Phases of 8 rounds. The second one reaches the target in its third round.
  loop.round = 11;
  const PhaseSummary second = summarize_phase("July", 9, loop);
  EXPECT_EQ(second.name, "July");
  EXPECT_EQ(second.first_round, 9);
  EXPECT_EQ(second.rounds, 3);
  EXPECT_EQ(second.last, loop.last);
  EXPECT_EQ(second.best, loop.best);
  // Ran to its end.
  loop.round = 16;
  EXPECT_EQ(summarize_phase("July", 9, loop).rounds, 8);
  // The untrained model was good enough: no round was run.
  loop.round = 0;
  EXPECT_EQ(summarize_phase("June", 1, loop).rounds, 0);
}

}  // namespace
}  // namespace chorus::inline experiment
