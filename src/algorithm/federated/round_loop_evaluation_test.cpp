// When the round loop evaluates which model, and what the scores decide: the best model, targets, milestones.
#include <gmock/gmock.h>

#include <cmath>

#include "algorithm/federated/round_loop_fixture_test.h"
#include "core/console/quiet_console.h"

namespace chorus::inline federated {
namespace {

using testing::ElementsAre;

TEST_F(RoundLoopTest, StopsAtTheFirstEvaluationThatReachesTheTarget) {
  config.last_round = 9;
  config.evaluate_every = 2;
  config.target = 0.3;  // reached in round 3, evaluated in round 4
  EXPECT_EQ(run(), RoundLoopEnd::kTargetReached);
  EXPECT_EQ(state.round, 4);
  EXPECT_EQ(state.rounds_to_target, 4);
  EXPECT_THAT(saved, ElementsAre(SaveCall{1, false}, SaveCall{2, false}, SaveCall{3, false}, SaveCall{4, true}));
  // Resuming from that state, the run is still finished.
  EXPECT_EQ(run(), RoundLoopEnd::kTargetReached);
  EXPECT_EQ(state.round, 4);
  EXPECT_EQ(saved.size(), 4U);
}

TEST_F(RoundLoopTest, APhaseBeginsAtItsOwnRoundAfterAnEarlyStop) {
  config.last_round = 5;
  config.target = 0.2;
  run();
  EXPECT_EQ(state.round, 2);
  state.rounds_to_target.reset();
  config.target.reset();
  config.first_round = 6;
  config.last_round = 7;
  EXPECT_EQ(run(), RoundLoopEnd::kFinished);
  EXPECT_THAT(tracker.rounds_of("round"), ElementsAre(1, 2, 6, 7));
  EXPECT_EQ(model(), 4);
}

TEST_F(RoundLoopTest, ALowerScoreIsBetterWhereTheMetricSaysSo) {
  config.last_round = 9;
  config.higher_is_better = false;
  algorithm.judges = true;
  config.target = 0.45;
  scorer.rule = [](double model) { return 1 / (1 + model); };
  EXPECT_EQ(run(), RoundLoopEnd::kTargetReached);
  EXPECT_EQ(state.rounds_to_target, 2);  // 1, 1/2, 1/3
  EXPECT_EQ(state.best_round, 2);
  EXPECT_THAT(algorithm.judged, ElementsAre(-1.0 / 2, -1.0 / 3));  // for algorithms, higher is always better
}

TEST_F(RoundLoopTest, SaysHowManyClientsDidNotScoreTheModel) {
  const QuietConsole quiet;
  config.per_client = true;
  config.last_round = 1;
  clients.broken = {1, 4};
  run();
  clients.broken.clear();
  config.first_round = config.last_round = 2;
  run();
  std::vector<double> left_out;
  for (const Event& event : tracker.of("evaluation")) {
    if (event.texts.at("split") != "clients") continue;
    left_out.push_back(event.numbers.contains("left_out") ? event.numbers.at("left_out") : 0);
  }
  EXPECT_THAT(left_out, ElementsAre(2, 2, 0)) << "before round 1, after it, and after round 2";
}

TEST_F(RoundLoopTest, ReportsTheCostOfEachTarget) {
  config.last_round = 4;
  config.targets = {0.15, 0.3, 0.9};
  config.emulation = EmulatedLoop{};
  algorithm.next.emulated.totals.seconds = 10;
  EXPECT_EQ(run(), RoundLoopEnd::kFinished);  // unlike `target`, milestones do not stop the run
  ASSERT_EQ(state.targets.size(), 3U);
  EXPECT_EQ(state.targets[0].reached->round, 2);
  EXPECT_EQ(state.targets[0].reached->score, 0.2);
  EXPECT_EQ(state.targets[0].reached->emulated.seconds, 20);
  EXPECT_EQ(state.targets[0].before->round, 1);
  EXPECT_EQ(state.targets[1].reached->round, 3);
  EXPECT_EQ(state.targets[1].before->emulated.seconds, 20);
  EXPECT_FALSE(state.targets[2].reached);
  EXPECT_EQ(state.last_evaluation->round, 4);
}

TEST_F(RoundLoopTest, KeepsTheFirstOfTheBestModels) {
  config.last_round = 5;
  algorithm.now = {1, 1};
  const std::map<double, double> curve{{0, 0.1}, {1, 0.6}, {2, 0.6}, {3, 0.2}, {4, std::nan("")}, {5, 0.5}};
  scorer.rule = [&](double model) { return curve.at(model); };
  run();
  EXPECT_EQ(state.best_round, 1);
  EXPECT_EQ(state.best.at("accuracy"), 0.6);
  EXPECT_EQ(state.best_model[0].item<double>(), 1);  // a copy: the model went on to 5
  EXPECT_EQ(state.best_variant, (Variant{1, 1}));
  EXPECT_EQ(state.last.at("accuracy"), 0.5);
  EXPECT_THAT(tracker.rounds_of("best"), ElementsAre(0, 1));
}

TEST_F(RoundLoopTest, ScoresOfSingleClassesAreKeptForTheSummaryOnly) {
  run();
  EXPECT_EQ(state.last.at("f1/sport"), 0.5);
  for (const Event& event : tracker.of("evaluation")) EXPECT_FALSE(event.numbers.contains("f1/sport"));
}

TEST_F(RoundLoopTest, ClientsScoreTheModelOnTheirOwnTestExamples) {
  config.last_round = 1;
  config.evaluate_every = 0;
  config.per_client = true;
  clients.broken = {2};
  scorer.nonsense = "4";
  const QuietConsole quiet;
  run();
  ASSERT_EQ(clients.asks.size(), 1U);
  EXPECT_EQ(clients.asks[0].procedure, "evaluate");
  EXPECT_EQ(clients.asks[0].model, 1);  // after the round
  EXPECT_THAT(clients.asks[0].clients, ElementsAre(0, 1, 2, 4, 5));
  const auto events = tracker.of("evaluation");
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1].texts.at("split"), "clients");
  EXPECT_EQ(events[1].numbers.at("accuracy"), 0.3);  // one of five gave no totals, and one nonsense
  EXPECT_EQ(events[2].texts.at("split"), "decile 1");
  ASSERT_EQ(state.deciles.size(), 1U);
  EXPECT_EQ(state.last.at("accuracy"), 0.1);  // the main score is the server's
}

TEST_F(RoundLoopTest, ADrawOfEvaluationClientsDependsOnSeedAndRoundOnly) {
  clients = LoopClients(std::vector<double>(40, 1.0));
  clients.losses.resize(40, 1);
  coverage = DeviceCoverage(clients.roster().sizes());
  config.per_client = true;
  config.evaluation_clients = 5;
  const auto drawn = [&](std::uint64_t seed) {
    config.seed = seed;
    state = {};
    state.model = torch::zeros({4}, at::kFloat);
    clients.asks.clear();
    run();
    std::vector<std::vector<ClientId>> result;
    for (const LoopAsk& ask : clients.asks) result.push_back(ask.clients);
    return result;
  };
  const auto first = drawn(1), again = drawn(1), other = drawn(2);
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  EXPECT_NE(first[1], first[2]);
  for (const auto& cohort : first) {
    EXPECT_EQ(cohort.size(), 5U);
    EXPECT_TRUE(std::is_sorted(cohort.begin(), cohort.end()));
  }
}

TEST_F(RoundLoopTest, PersonalModelsAreScoredByTheirClientsOnTheSharedTestSet) {
  traits.personal = true;
  config.last_round = 1;
  config.per_client = true;
  run();
  EXPECT_EQ(scorer.calls, 0);
  ASSERT_EQ(clients.asks.size(), 2U);
  for (const LoopAsk& ask : clients.asks) EXPECT_EQ(ask.procedure, "local/evaluate");
  EXPECT_EQ(clients.asks[0].shared, 1);
  EXPECT_EQ(clients.asks[1].shared, 0);
  EXPECT_EQ(state.last.at("accuracy"), 0.5);
  EXPECT_THAT(tracker.rounds_of("evaluation", "test"), ElementsAre(1));  // none before there are personal models
}

TEST_F(RoundLoopTest, ClientsAreAskedAboutTheVersionOfTheModelInUse) {
  const HalfVariants half;
  variants = &half;
  algorithm.now = {1, 1};
  config.last_round = 1;
  config.evaluate_every = 0;
  config.per_client = true;
  run();
  ASSERT_EQ(clients.asks.size(), 1U);
  EXPECT_EQ(clients.asks[0].elements, 2);
  EXPECT_EQ(clients.asks[0].depth, 1);
  EXPECT_EQ(scorer.variants.back(), (Variant{1, 1}));
  algorithm.now = {};
  config.first_round = config.last_round = 2;
  run();
  EXPECT_EQ(clients.asks[1].elements, 4);
  EXPECT_EQ(clients.asks[1].depth, -1);
}

}  // namespace
}  // namespace chorus::inline federated
