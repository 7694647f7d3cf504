// Whole runs of the server's stack, from selection to the emulated clock, on clients whose training has a closed form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "algorithm/federated/round_loop.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/ports/link.h"
#include "infrastructure/emulation/emulated_federation.h"
#include "tests/contract/quadratic_clients.h"

namespace chorus::inline contract {
namespace {

using quadratic::World;

/// The closer to a value, the better.
class DistanceScorer : public Scorer {
 public:
  Scores score(const at::Tensor& model, const Variant&) override {
    return {{"accuracy", -(model - goal).abs().max().item<double>()}};
  }
  Scores pooled(const ClientTotals&) const override { return {{"accuracy", 0}}; }
  std::vector<ClientGroupScores> deciles(const ClientTotals&) const override { return {}; }
  at::Tensor goal = torch::zeros({4}, at::kFloat);
};

class EventList : public Tracker {
 public:
  void record(const Event& event) override { events.push_back(event); }
  std::vector<double> column(const std::string& kind, const std::string& name) const {
    std::vector<double> values;
    for (const Event& event : events) {
      if (event.kind == kind) values.push_back(event.numbers.at(name));
    }
    return values;
  }
  std::vector<Event> events;
};

/// A run of `algorithm` over ten clients; everything can be set before `run`.
struct Stack {
  explicit Stack(const std::string& algorithm_name = "fedavg", std::size_t clients_per_round = 10)
      : name(algorithm_name) {
    for (int k = 0; k < 10; ++k) {
      world.clients.push_back({.target = 0.1 * k, .steps = 2, .examples = 1.0 + k});
    }
    config.last_round = config.rounds = 6;
    config.clients_per_round = clients_per_round;
    config.seed = 3;
    state.model = torch::linspace(-1, 1, 4, at::kFloat);
  }

  RoundLoopEnd run() {
    LocalFederation local(quadratic::federation_input(world, 3, workers));
    std::unique_ptr<Transport> transport;
    std::unique_ptr<LinkedFederation> link;
    if (wire) {
      transport = Transports::make("inproc");
      link = LinkedFederations::make("wire", LinkInput{*transport, local, 5, 0});
    }
    Federation& inner = wire ? static_cast<Federation&>(*link) : local;
    std::unique_ptr<Fleet> fleet;
    std::unique_ptr<EmulatedFederation> emulated;
    if (!emulation.empty()) {
      fleet = std::make_unique<Fleet>(ConfigDocument::parse(emulation, "stack").load<EmulationConfig>(), config.seed);
      emulated = std::make_unique<EmulatedFederation>(
          EmulatedFederationInput{.inner = inner,
                                  .fleet = *fleet,
                                  .work = {.way = {TuningWay::Method::kAdapter, true}, .depth = 2},
                                  .clock = [this] { return state.emulated.seconds; },
                                  .batches = [](ClientId) { return 2.0; }});
    }
    Federation& federation = emulated ? static_cast<Federation&>(*emulated) : inner;
    const auto algorithm = quadratic::make_algorithm(name, world);
    algorithm->restore(server);
    const auto aggregation = Aggregations::make("mean");
    const auto selector = Selectors::make(selection);
    DeviceCoverage coverage(world.sizes());
    RoundLoopParts parts{federation, *algorithm, Choice<Algorithms>(name).traits(), *aggregation, *selector, scorer,
                         tracker,    coverage};
    const RoundLoopEnd end = run_rounds(parts, config, state);
    server.clear();
    for (const auto& [key, tensor] : algorithm->state()) server[key] = tensor.clone();
    return end;
  }

  std::string name, selection = "uniform", emulation;
  bool wire = false;
  std::size_t workers = 1;
  World world;
  RoundLoopConfig config;
  RoundLoopState state;
  DistanceScorer scorer;
  EventList tracker;
  std::map<std::string, at::Tensor> server;
};

TEST(RoundStack, FedAvgGoesGeometricallyToTheWeightedMeanOfTheTargets) {
  Stack stack;
  double total = 0, mean = 0;
  for (const quadratic::Client& client : stack.world.clients) {
    total += client.examples;
    mean += client.examples * client.target;
  }
  const at::Tensor goal = torch::arange(4, at::kFloat) / 10 + mean / total;
  const at::Tensor start = stack.state.model.clone();
  stack.scorer.goal = goal;
  stack.run();
  // Two steps of 0.1 leave 0.81 of the way to each client's target.
  const at::Tensor expected = goal + (start - goal) * std::pow(0.81, 6);
  EXPECT_TRUE(torch::allclose(stack.state.model, expected, 1e-5, 1e-6));
  const std::vector<double> curve = stack.tracker.column("evaluation", "accuracy");
  ASSERT_EQ(curve.size(), 7U);
  for (std::size_t i = 1; i < curve.size(); ++i) EXPECT_NEAR(curve[i] / curve[i - 1], 0.81, 1e-4);
  EXPECT_EQ(stack.state.best_round, 6);
  EXPECT_EQ(stack.state.examples, 6 * total);
}

class EveryAlgorithm : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const AlgorithmTraits traits = Choice<Algorithms>(GetParam()).traits();
    if (traits.variants || traits.sub_networks || traits.clock || traits.pooled || traits.personal ||
        traits.distills) {
      GTEST_SKIP() << "needs variants, a clock, data or a public set";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Registered, EveryAlgorithm, testing::ValuesIn(Algorithms::names()));

// Selection, server state, client states and the loop's own state together decide the future.
TEST_P(EveryAlgorithm, StoppedAfterAnyRoundItEndsWithTheSameBits) {
  Stack whole(GetParam(), 4);
  whole.run();
  for (const std::int64_t stop : {1, 3, 5}) {
    Stack parts(GetParam(), 4);
    parts.config.last_round = stop;
    parts.run();
    parts.config.last_round = 6;
    parts.run();  // with objects of its own, as another process
    EXPECT_TRUE(torch::equal(parts.state.model, whole.state.model)) << stop;
    EXPECT_EQ(parts.state.examples, whole.state.examples);
    ASSERT_EQ(parts.world.states.size(), whole.world.states.size());
    for (const auto& [client, state] : whole.world.states) {
      for (const auto& [name, tensor] : state) {
        EXPECT_TRUE(torch::equal(parts.world.states.at(client).at(name), tensor)) << client << " " << name;
      }
    }
  }
}

TEST_P(EveryAlgorithm, WorkersAndAWireChangeNoBit) {
  Stack plain(GetParam(), 4);
  plain.run();
  Stack side_by_side(GetParam(), 4);
  side_by_side.workers = 3;
  side_by_side.run();
  EXPECT_TRUE(torch::equal(side_by_side.state.model, plain.state.model));
  if (!quadratic::has_wire()) return;
  Stack remote(GetParam(), 4);
  remote.wire = true;
  remote.run();
  EXPECT_TRUE(torch::equal(remote.state.model, plain.state.model));
  EXPECT_GT(remote.state.bytes_up, plain.state.bytes_up) << "framing takes bytes, too";
}

TEST(RoundStack, AnotherSeedSelectsOtherClients) {
  Stack one("fedavg", 4), again("fedavg", 4), two("fedavg", 4);
  two.config.seed = 4;
  for (Stack* stack : {&one, &again, &two}) stack->run();
  EXPECT_TRUE(torch::equal(one.state.model, again.state.model));
  EXPECT_FALSE(torch::equal(one.state.model, two.state.model));
}

TEST(RoundStack, OverSelectionUsesExactlyTheWantedReplies) {
  Stack stack;
  stack.emulation = "{over_selection: 1.5, stragglers: {share: 0.4, slowdown: 5}}";
  stack.config.emulation = EmulatedLoop{.over_selection = 1.5};
  stack.config.clients_per_round = 4;
  stack.run();
  for (const double clients : stack.tracker.column("round", "clients")) EXPECT_EQ(clients, 6);
  for (const double left_out : stack.tracker.column("round", "left_out")) EXPECT_EQ(left_out, 2);
  // Whoever waits for everybody waits longer.
  Stack patient;
  patient.emulation = "{stragglers: {share: 0.4, slowdown: 5}}";
  patient.config.emulation = EmulatedLoop{};
  patient.config.clients_per_round = 6;
  patient.run();
  EXPECT_LT(stack.state.emulated.seconds, patient.state.emulated.seconds);
}

TEST(RoundStack, AskingForLossesTakesEmulatedTimeAndBytes) {
  Stack uniform, choosy;
  for (Stack* stack : {&uniform, &choosy}) {
    stack->emulation = "{}";
    stack->config.emulation = EmulatedLoop{};
    stack->config.clients_per_round = 3;
  }
  choosy.selection = "power_of_choice";
  uniform.run();
  choosy.run();
  // All devices are alike: two batches of training against a third of that for a loss, before it.
  const double training = uniform.tracker.column("round", "emulated_seconds")[0];
  const double both = choosy.tracker.column("round", "emulated_seconds")[0];
  EXPECT_NEAR(both / training, 4.0 / 3, 0.01);
  // Six candidates get the model, of whom three get it again to train.
  EXPECT_GT(choosy.state.bytes_down, 2.5 * uniform.state.bytes_down);
  EXPECT_GT(choosy.state.emulated.joules, uniform.state.emulated.joules);
}

TEST(RoundStack, WhenNobodyAnswersTheClockRunsAndTheModelStays) {
  Stack stack;
  stack.emulation = "{dropout: 1, deadline: 60}";
  stack.config.emulation = EmulatedLoop{};
  const at::Tensor start = stack.state.model.clone();
  EXPECT_EQ(stack.run(), RoundLoopEnd::kFinished);
  EXPECT_TRUE(torch::equal(stack.state.model, start));
  EXPECT_DOUBLE_EQ(stack.state.emulated.seconds, 360);
  EXPECT_EQ(stack.state.examples, 0);
  EXPECT_TRUE(stack.world.states.empty());
}

TEST(RoundStack, TargetsAreReachedOnTheEmulatedClock) {
  Stack stack;
  stack.emulation = "{}";
  stack.config.emulation = EmulatedLoop{};
  stack.scorer.goal = torch::arange(4, at::kFloat) / 10 + 0.6;
  const double first = -(stack.state.model - stack.scorer.goal).abs().max().item<double>();
  stack.config.targets = {first * 0.7, first * 0.5, 1};
  stack.run();
  const std::vector<double> seconds = stack.tracker.column("round", "emulated_seconds");
  // 0.81 is not enough, 0.66 is; then 0.53 is not enough, 0.43 is.
  ASSERT_TRUE(stack.state.targets[0].reached && stack.state.targets[1].reached);
  EXPECT_EQ(stack.state.targets[0].reached->round, 2);
  EXPECT_EQ(stack.state.targets[1].reached->round, 4);
  EXPECT_NEAR(stack.state.targets[0].reached->emulated.seconds, seconds[0] + seconds[1], 1e-9);
  EXPECT_EQ(stack.state.targets[1].before->round, 3);
  EXPECT_FALSE(stack.state.targets[2].reached);
}

}  // namespace
}  // namespace chorus::inline contract
