#include "algorithm/federated/round_loop.h"

#include <gmock/gmock.h>

#include "algorithm/federated/round_loop_fixture_test.h"
#include "algorithm/selection/power_of_choice.h"
#include "core/base/error.h"

namespace chorus::inline federated {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(RoundLoopTest, TrainsEvaluatesAndSavesEveryRound) {
  config.rounds = 9;
  EXPECT_EQ(run(), RoundLoopEnd::kFinished);
  EXPECT_EQ(state.round, 3);
  EXPECT_EQ(model(), 3);
  EXPECT_EQ(state.examples, 6);
  EXPECT_THAT(algorithm.numbers, ElementsAre(ElementsAre(1, 9, 7), ElementsAre(2, 9, 7), ElementsAre(3, 9, 7)));
  EXPECT_THAT(tracker.rounds_of("evaluation"), ElementsAre(0, 1, 2, 3));  // the curve begins before training
  EXPECT_THAT(tracker.rounds_of("round"), ElementsAre(1, 2, 3));
  EXPECT_THAT(saved, ElementsAre(SaveCall{1, false}, SaveCall{2, false}, SaveCall{3, true}));
  EXPECT_THAT(shown, ElementsAre(1, 2, 3));
  EXPECT_EQ(state.last.at("accuracy"), 0.3);
}

TEST_F(RoundLoopTest, EvaluatesEveryNRoundsAndAfterTheLast) {
  config.last_round = 5;
  config.evaluate_every = 2;
  run();
  EXPECT_THAT(tracker.rounds_of("evaluation"), ElementsAre(0, 2, 4, 5));
  // A second phase counts from its own first round.
  tracker.events.clear();
  config.first_round = 6;
  config.last_round = 10;
  run();
  EXPECT_THAT(tracker.rounds_of("evaluation"), ElementsAre(7, 9, 10));
}

TEST_F(RoundLoopTest, WithoutAnIntervalOnlyTheLastModelIsEvaluated) {
  config.evaluate_every = 0;
  run();
  EXPECT_THAT(tracker.rounds_of("evaluation"), ElementsAre(3));
  EXPECT_EQ(scorer.calls, 1);
}

TEST_F(RoundLoopTest, ResumesFromAStateAsIfItHadNeverStopped) {
  config.last_round = 5;
  config.targets = {0.2, 0.4};
  run();
  const RoundLoopState whole = state;
  const std::vector<std::int64_t> evaluated = tracker.rounds_of("evaluation");

  state = {};
  state.model = torch::zeros({4}, at::kFloat);
  tracker.events.clear();
  config.last_round = 2;
  run();
  config.last_round = 5;
  run();
  EXPECT_EQ(model(), whole.model[0].item<double>());
  EXPECT_EQ(tracker.rounds_of("evaluation"), evaluated);
  EXPECT_EQ(state.examples, whole.examples);
  EXPECT_EQ(state.bytes_down, whole.bytes_down);
  ASSERT_EQ(state.targets.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(state.targets[i].reached->round, whole.targets[i].reached->round);
}

TEST_F(RoundLoopTest, AClientDrawnTwiceCountsTwiceInASortedCohort) {
  list.given = {{4, 0, 4, 1}};
  config.last_round = 1;
  run();
  ASSERT_EQ(algorithm.cohorts.size(), 1U);
  std::vector<std::pair<ClientId, double>> cohort;
  for (const Member& member : algorithm.cohorts[0]) cohort.emplace_back(member.client, member.times);
  EXPECT_THAT(cohort, ElementsAre(testing::Pair(0, 1), testing::Pair(1, 1), testing::Pair(4, 2)));
  EXPECT_EQ(coverage.selections(), 4U);
  EXPECT_EQ(coverage.distinct(), 3U);
  EXPECT_EQ(tracker.of("round")[0].numbers.at("clients"), 3);
  EXPECT_EQ(tracker.of("round")[0].numbers.at("devices"), 3);
}

TEST_F(RoundLoopTest, OverSelectionAsksForMoreButNeedsNoMoreThanConfigured) {
  config.last_round = 1;
  config.clients_per_round = 3;
  config.emulation = EmulatedLoop{.over_selection = 1.5};
  run();
  EXPECT_THAT(list.counts, ElementsAre(5));  // ceil(4.5)
  EXPECT_THAT(algorithm.enough, ElementsAre(3));
  EXPECT_EQ(algorithm.cohorts[0].size(), 5U);
}

TEST_F(RoundLoopTest, OverSelectionAsksAtMostAllClients) {
  config.last_round = 1;
  config.clients_per_round = 4;
  config.emulation = EmulatedLoop{.over_selection = 2};
  run();
  EXPECT_THAT(list.counts, ElementsAre(5));  // of 6 clients one has no data
  EXPECT_THAT(algorithm.enough, ElementsAre(4));
}

TEST_F(RoundLoopTest, WithoutOverSelectionEveryReplyIsNeeded) {
  config.last_round = 1;
  run();
  config.first_round = config.last_round = 2;
  config.emulation = EmulatedLoop{};
  run();
  EXPECT_THAT(list.counts, ElementsAre(2, 2));
  EXPECT_THAT(algorithm.enough, ElementsAre(0, 0));
}

TEST_F(RoundLoopTest, TheSelectorKnowsTheEmulatedClock) {
  config.last_round = 2;
  run();
  config.first_round = 3;
  config.last_round = 4;
  config.emulation = EmulatedLoop{};
  algorithm.next.emulated.totals.seconds = 12;
  run();
  EXPECT_THAT(list.seconds, ElementsAre(std::nullopt, std::nullopt, std::optional(0.0), std::optional(12.0)));
}

TEST_F(RoundLoopTest, LossesForASelectorCostTimeEnergyAndBytes) {
  const PowerOfChoiceSelector choice({.candidates = 5});
  selector = &choice;
  clients.losses = {0.1, 0.9, 0.3, 0, 0.8, 0.2};
  config.last_round = 1;
  config.emulation = EmulatedLoop{};
  algorithm.next.emulated.totals = {.seconds = 100, .joules = 50, .client_joules = 25, .client_bytes = 1000};
  run();
  ASSERT_EQ(clients.asks.size(), 1U);
  EXPECT_EQ(clients.asks[0].procedure, "loss");
  EXPECT_EQ(clients.asks[0].round, 1U);
  EXPECT_THAT(clients.asks[0].clients, testing::UnorderedElementsAre(0, 1, 2, 4, 5));
  EXPECT_EQ(clients.asks[0].model, 0);  // the model before the round
  EXPECT_EQ(algorithm.cohorts[0][0].client, 1U);
  EXPECT_EQ(algorithm.cohorts[0][1].client, 4U);
  // The slowest candidate is client 5 with 6 s; training follows.
  EXPECT_DOUBLE_EQ(state.emulated.seconds, 106);
  EXPECT_DOUBLE_EQ(state.emulated.joules, 60);
  EXPECT_DOUBLE_EQ(state.emulated.client_joules, 27);
  EXPECT_DOUBLE_EQ(state.emulated.client_bytes, 1110);
  EXPECT_EQ(state.bytes_down, 500);
  EXPECT_EQ(state.bytes_up, 50);
  const Event round = tracker.of("round")[0];
  EXPECT_DOUBLE_EQ(round.numbers.at("emulated_seconds"), 106);
  EXPECT_EQ(round.numbers.at("bytes_down"), 500);
}

TEST_F(RoundLoopTest, ACandidateThatDoesNotReplyIsChosenLast) {
  const PowerOfChoiceSelector choice({.candidates = 5});
  selector = &choice;
  clients.losses = {0.1, 0.9, 0.3, 0, 0.8, 0.2};
  clients.broken = {1};
  config.last_round = 1;
  run();
  EXPECT_EQ(algorithm.cohorts[0][0].client, 2U);
  EXPECT_EQ(algorithm.cohorts[0][1].client, 4U);
}

TEST_F(RoundLoopTest, ARoundWithoutClientsChangesOnlyTheClock) {
  list.given = std::vector<ClientId>{};
  config.last_round = 2;
  config.emulation = EmulatedLoop{.idle_seconds = 30};
  EXPECT_EQ(run(), RoundLoopEnd::kFinished);
  EXPECT_TRUE(algorithm.cohorts.empty());
  EXPECT_EQ(model(), 0);
  EXPECT_EQ(state.emulated.seconds, 60);
  EXPECT_THAT(list.seconds, ElementsAre(std::optional(0.0), std::optional(30.0)));
  EXPECT_EQ(tracker.of("round")[1].numbers.at("clients"), 0);
}

TEST_F(RoundLoopTest, AStopRequestEndsAfterItsRoundWithACheckpoint) {
  config.last_round = 9;
  config.evaluate_every = 5;
  stop = [&] { return algorithm.cohorts.size() == 2; };
  EXPECT_EQ(run(), RoundLoopEnd::kStopped);
  EXPECT_EQ(state.round, 2);
  EXPECT_THAT(saved, ElementsAre(SaveCall{1, false}, SaveCall{2, true}));
  EXPECT_THAT(tracker.rounds_of("evaluation"), ElementsAre(0));  // a stop does not wait for an evaluation
}

TEST_F(RoundLoopTest, AStopRequestInTheLastRoundFinishes) {
  stop = [&] { return algorithm.cohorts.size() == 3; };
  EXPECT_EQ(run(), RoundLoopEnd::kFinished);
  EXPECT_THAT(saved, ElementsAre(SaveCall{1, false}, SaveCall{2, false}, SaveCall{3, true}));
}

TEST_F(RoundLoopTest, FailuresAreRecordedButNotClientsDroppedByTheEmulation) {
  config.last_round = 1;
  config.emulation = EmulatedLoop{};
  algorithm.next.failed = {{1, "disk on fire"}, {4, "after the deadline"}};
  algorithm.next.emulated.left_out = {4};
  run();
  const auto failed = tracker.of("client_failed");
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].numbers.at("client"), 1);
  EXPECT_EQ(failed[0].texts.at("reason"), "disk on fire");
  const Event round = tracker.of("round")[0];
  EXPECT_EQ(round.numbers.at("failed"), 2);
  EXPECT_EQ(round.numbers.at("left_out"), 1);
}

TEST_F(RoundLoopTest, RoundEventsCarryTheNumbersOfTheAlgorithmAndOfFilters) {
  config.last_round = 1;
  algorithm.next.numbers = {{"depth", 3}};
  numbers = [] { return std::map<std::string, double>{{"ratio_up", 8}}; };
  run();
  const Event round = tracker.of("round")[0];
  EXPECT_EQ(round.numbers.at("depth"), 3);
  EXPECT_EQ(round.numbers.at("ratio_up"), 8);
  EXPECT_FALSE(round.numbers.contains("emulated_seconds"));
}

/// No reply can be used, except in one round.
class FailingRounds : public Algorithm {
 public:
  FailingRounds(std::uint64_t used, bool late) : used_(used), late_(late) {}
  RoundResult round(const RoundInput& input) override {
    RoundResult result;
    if (input.round == used_) return result;
    for (const Member& member : input.cohort) {
      result.failed.emplace_back(member.client, "its loss is not a number");
      if (late_) result.emulated.left_out.push_back(member.client);
    }
    return result;
  }

 private:
  std::uint64_t used_;
  bool late_;
};

TEST_F(RoundLoopTest, ARunInWhichNoReplyWasEverUsedEndsWithAnError) {
  const auto end_of = [&](std::uint64_t used, bool late) -> std::string {
    FailingRounds failing(used, late);
    state = {};
    state.model = torch::zeros({4}, at::kFloat);
    const RoundLoopParts parts{clients, failing, traits, *aggregation, *selector, scorer, tracker, coverage, variants};
    try {
      run_rounds(parts, config, state);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(end_of(0, false), HasSubstr("no client's reply could be used in any round"));
  EXPECT_THAT(end_of(0, false), HasSubstr("round 1, client 0: its loss is not a number"));
  EXPECT_EQ(state.round, 3);
  EXPECT_EQ(end_of(2, false), "");
  EXPECT_EQ(end_of(0, true), "") << "devices of an emulation may be too slow";
}

TEST(CheckCohort, RefusesMoreClientsThanCanBeSelected) {
  const ListSelector selector;
  const std::vector<double> sizes{3, 0, 2};
  check_cohort(selector, sizes, 2);
  try {
    check_cohort(selector, sizes, 3);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("only 2 of 3 can be selected"));
  }
}

}  // namespace
}  // namespace chorus::inline federated
