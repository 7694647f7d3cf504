// What every registered algorithm must do, whoever wrote it, and the numbers of the classic ones.

#include "core/ports/algorithm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "algorithm/federated/fedlora.h"
#include "core/config/config.h"
#include "core/ports/forwarding_federation.h"
#include "core/ports/link.h"
#include "tests/contract/quadratic_clients.h"

namespace chorus::inline contract {
namespace {

using quadratic::Client;
using quadratic::World;

at::Tensor beginning() { return torch::linspace(-1, 1, 4, at::kFloat); }

std::vector<Client> three_clients() {
  return {{.curvature = 0.5, .target = -1.0, .steps = 1, .examples = 10},
          {.curvature = 1.0, .target = 0.5, .steps = 3, .examples = 20},
          {.curvature = 2.0, .target = 2.0, .steps = 5, .examples = 70}};
}

// Nothing smaller than the whole.
class OnlyTheWhole : public Variants {
 public:
  Variant whole() const override { return {1, 1}; }
  int unit() const override { return 1; }
  at::Tensor places(const Variant&) const override { return torch::arange(4, at::kLong); }
};

struct Trial {
  static inline bool linked = false;  // server and clients exchange bytes
  World world;
  std::unique_ptr<Algorithm> algorithm;
  at::Tensor model = beginning();
  std::size_t cohort_batch = 2, workers = 1;
  Weighting weighting = Weighting::kExamples;
  std::uint64_t round = 0, seed = 0;

  Trial(const std::string& name, std::vector<Client> clients, const std::string& options = "{}")
      : world{.clients = std::move(clients)}, algorithm(quadratic::make_algorithm(name, world, options)) {}

  RoundResult step(std::vector<ClientId> order = {}) {
    if (order.empty()) {
      for (ClientId id = 0; id < world.clients.size(); ++id) order.push_back(id);
    }
    std::vector<Member> cohort;
    for (const ClientId id : order) cohort.push_back({id, 1});
    LocalFederation local(quadratic::federation_input(world, cohort_batch, workers));
    std::unique_ptr<Transport> transport;
    std::unique_ptr<LinkedFederation> link;
    if (linked) {
      transport = Transports::make("inproc");
      link = LinkedFederations::make("wire", LinkInput{*transport, local});
    }
    quadratic::OneSecond clocked(link ? static_cast<Federation&>(*link) : local);
    const OnlyTheWhole variants;
    const auto mean = Aggregations::make("mean");
    RoundInput input{clocked, *mean, cohort, model, ++round, 10, seed, weighting};
    input.variants = &variants;
    input.judge = [](const at::Tensor& of, const Variant&) { return -of.square().sum().item<double>(); };
    return algorithm->round(input);
  }
};

/// All but those that need a public set: quadratics have no predictions. distillation_test.cpp has the same contracts
/// for them, on linear clients.
std::vector<std::string> quadratic_algorithms() {
  std::vector<std::string> names = Algorithms::names();
  std::erase_if(names, [](const std::string& name) { return Algorithms::traits(name).distills; });
  return names;
}

// FedSGD's one step has a learning rate of its own.
std::string options_of(const std::string& name) {
  if (name == "q_fedavg") return "{q: 0}";
  if (name == "apfl") return "{local_steps: 4}";
  return name == "fedopt" ? "{momentum: 0}" : "{}";
}

std::vector<std::string> federated_algorithms() {
  std::vector<std::string> names;
  for (const std::string& name : quadratic_algorithms()) {
    const AlgorithmTraits& traits = Algorithms::traits(name);
    if (name == "adafl") continue;  // it deals clients to three groups; see adafl_test.cpp
    if (!traits.personal && !traits.pooled) names.push_back(name);
  }
  return names;
}

/// Every contract twice: with clients in this process, and with a server and clients that exchange bytes.
class AlgorithmContract : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !quadratic::has_wire()) GTEST_SKIP() << "built without the wire format";
    Trial::linked = GetParam();
  }
  void TearDown() override { Trial::linked = false; }
};
INSTANTIATE_TEST_SUITE_P(Local, AlgorithmContract, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Linked, AlgorithmContract, testing::Values(true));

TEST_P(AlgorithmContract, TheRegisteredNames) {
  EXPECT_THAT(Algorithms::names(), testing::IsSupersetOf({"centralized", "fedavg", "fedbuff", "fednova", "fedopt",
                                                          "fedprox", "fedsgd", "local", "scaffold"}));
}

TEST_P(AlgorithmContract, OneClientEqualsLocalTraining) {
  for (const std::string& name : federated_algorithms()) {
    if (name == "signsgd") continue;                         // a vote on directions forgets how far a client went
    if (name == "pfedme" || name == "per_fedavg") continue;  // other objectives; see personal_test.cpp
    if (name == "fedbn" || name == "lg_fedavg" || name == "local_parts" || name.starts_with("fedper") ||
        name == "fedrep") {
      continue;  // the server never has the whole model
    }
    const Client only{.curvature = 1.5, .target = 0.3, .steps = name == "fedsgd" ? 1 : 4, .examples = 7};
    // FedProx pulls towards where it began: without that term it is local training.
    Trial run(name, {only}, name == "fedprox" ? "{mu: 0}" : options_of(name));
    run.step();
    const at::Tensor centre = torch::arange(4, at::kFloat) / 10 + only.target;
    const at::Tensor expected = centre + std::pow(1 - 0.1 * only.curvature, only.steps) * (beginning() - centre);
    EXPECT_TRUE(torch::allclose(run.model, expected, 1e-6, 1e-6)) << name << "\n" << run.model << expected;
  }
}

TEST_P(AlgorithmContract, SameBitsTwiceInAnyOrderOfClientsAndWithAnyNumberOfWorkers) {
  for (const std::string& name : quadratic_algorithms()) {
    std::vector<Client> clients;
    for (int k = 0; k < 23; ++k) {
      clients.push_back(
          {.curvature = 0.1 * k + 0.3, .target = k * 0.7 - 3, .steps = 1 + k % 5, .examples = 1.0 + k % 7});
    }
    Trial run(name, clients), again(name, clients), shuffled(name, clients), parallel(name, clients);
    parallel.workers = 4;
    std::vector<ClientId> order;
    for (ClientId id = 0; id < 23; ++id) order.push_back((id * 7) % 23);
    for (int round = 0; round < 4; ++round) {
      run.step();
      again.step();
      shuffled.step(order);
      parallel.step();
      EXPECT_TRUE(torch::equal(run.model, again.model)) << name;
      EXPECT_TRUE(torch::equal(run.model, shuffled.model)) << name;
      EXPECT_TRUE(torch::equal(run.model, parallel.model)) << name;
    }
    EXPECT_EQ(Algorithms::traits(name).personal, torch::equal(run.model, beginning())) << name;
  }
}

TEST_P(AlgorithmContract, AnotherCohortBatchGivesTheSameWithinRounding) {
  for (const std::string& name : quadratic_algorithms()) {
    Trial two(name, three_clients()), all(name, three_clients());
    all.cohort_batch = 3;
    for (int round = 0; round < 3; ++round) {
      two.step();
      all.step();
    }
    EXPECT_TRUE(torch::allclose(two.model, all.model, 1e-5, 1e-5)) << name;
  }
}

TEST_P(AlgorithmContract, WhatDoesNotFitIntoMemoryIsDoneInHalves) {
  for (const std::string& name : federated_algorithms()) {
    Trial plenty(name, three_clients(), options_of(name)), scarce(name, three_clients(), options_of(name));
    plenty.cohort_batch = scarce.cohort_batch = 3;
    scarce.world.room = 1;
    for (int round = 0; round < 3; ++round) {
      plenty.step();
      scarce.step();
    }
    EXPECT_TRUE(torch::allclose(plenty.model, scarce.model, 1e-6, 1e-7)) << name;
  }
  Trial none("fedavg", three_clients());
  none.world.room = 0;
  const RoundResult result = none.step();
  ASSERT_EQ(result.failed.size(), 3U);
  EXPECT_THAT(result.failed[0].second, testing::HasSubstr("more memory than there is"));
}

TEST_P(AlgorithmContract, GoesOnFromASavedState) {
  for (const std::string& name : quadratic_algorithms()) {
    Trial whole(name, three_clients()), first(name, three_clients());
    for (int round = 0; round < 4; ++round) whole.step();
    for (int round = 0; round < 2; ++round) first.step();
    std::map<std::string, at::Tensor> saved;
    for (const auto& [key, tensor] : first.algorithm->state()) saved[key] = tensor.clone();
    Trial second(name, three_clients());
    second.algorithm->restore(saved);
    second.model = first.model.clone();
    second.round = first.round;
    second.world.states = first.world.states;
    for (int round = 0; round < 2; ++round) second.step();
    EXPECT_TRUE(torch::equal(whole.model, second.model)) << name;
  }
}

TEST_P(AlgorithmContract, AClientWithoutANumberIsReportedAndLeftOut) {
  for (const std::string& name : federated_algorithms()) {
    std::vector<Client> with = three_clients();
    with.push_back({.curvature = 1, .target = std::nan(""), .steps = 2, .examples = 50, .broken = true});
    Trial broken(name, with), without(name, three_clients());
    const RoundResult result = broken.step();
    without.step();
    ASSERT_EQ(result.failed.size(), 1U) << name;
    EXPECT_EQ(result.failed[0].first, 3U);
    EXPECT_THAT(result.failed[0].second, testing::HasSubstr("not a number"));
    EXPECT_TRUE(std::isfinite(result.loss)) << name;
    EXPECT_TRUE(torch::allclose(broken.model, without.model, 1e-6, 1e-6)) << name;
  }
}

TEST_P(AlgorithmContract, WhenEverybodyFailsTheModelStays) {
  for (const std::string& name : federated_algorithms()) {
    Trial run(name, {{.broken = true}, {.examples = 0}});
    const RoundResult result = run.step();
    EXPECT_EQ(result.failed.size(), 2U) << name;
    EXPECT_TRUE(torch::equal(run.model, beginning())) << name;
  }
}

TEST(Algorithms, SpecialCasesAreFedAvg) {
  const auto after = [](const std::string& name, const std::string& options, std::vector<Client> clients, int rounds) {
    Trial run(name, std::move(clients), options);
    for (int round = 0; round < rounds; ++round) run.step();
    return run.model;
  };
  const at::Tensor fedavg = after("fedavg", "{}", three_clients(), 3);
  EXPECT_TRUE(torch::equal(fedavg, after("fedprox", "{mu: 0}", three_clients(), 3)));
  EXPECT_TRUE(torch::equal(fedavg, after("fedopt", "{momentum: 0, learning_rate: 1}", three_clients(), 3)));
  EXPECT_TRUE(torch::equal(after("fedavg", "{}", three_clients(), 1), after("scaffold", "{}", three_clients(), 1)));
  std::vector<Client> equal = three_clients();
  for (Client& client : equal) client.steps = 3;
  EXPECT_TRUE(torch::allclose(after("fedavg", "{}", equal, 3), after("fednova", "{}", equal, 3), 1e-6, 1e-6));
  EXPECT_FALSE(torch::allclose(fedavg, after("fednova", "{}", three_clients(), 3), 1e-3, 1e-3));
}

TEST(Algorithms, EqualTheNumbersOfAnotherImplementation) {
  std::ifstream file(CHORUS_SOURCE_DIR "/tests/golden/quadratic_rounds.json");
  const auto golden = nlohmann::json::parse(file);
  const std::map<std::string, std::pair<std::string, std::string>> cases{
      {"fedavg", {"fedavg", "{}"}},
      {"fedprox", {"fedprox", "{mu: 0.5}"}},
      {"fedopt sgd", {"fedopt", "{momentum: 0.9, learning_rate: 1}"}},
      {"fedopt adagrad", {"fedopt", "{server: adagrad, learning_rate: 0.1}"}},
      {"fedopt adam", {"fedopt", "{server: adam, learning_rate: 0.1}"}},
      {"fedopt yogi", {"fedopt", "{server: yogi, learning_rate: 0.1}"}},
      {"fednova", {"fednova", "{}"}},
      {"scaffold", {"scaffold", "{}"}},
      {"fedsgd", {"fedsgd", "{learning_rate: 0.1}"}}};
  ASSERT_EQ(golden.size(), cases.size());
  for (const auto& [name, how] : cases) {
    Trial run(how.first, three_clients(), how.second);
    for (const auto& expected : golden.at(name)) {
      run.step();
      for (std::int64_t p = 0; p < 4; ++p) {
        EXPECT_NEAR(run.model[p].item<double>(), expected[static_cast<std::size_t>(p)].get<double>(), 2e-6) << name;
      }
    }
  }
}

TEST(Algorithms, ReplicatesWithOtherSeedsDrawAnew) {
  std::vector<Client> clients;
  for (int k = 0; k < 12; ++k) clients.push_back({.curvature = 0.3 + 0.1 * k, .target = k - 6.0, .examples = 5});
  const std::string options = "{buffer: 2, concurrency: 3}";
  Trial first("fedbuff", clients, options), same("fedbuff", clients, options), other("fedbuff", clients, options);
  first.seed = same.seed = 1;
  other.seed = 2;
  for (int round = 0; round < 3; ++round) {
    first.step();
    same.step();
    other.step();
  }
  EXPECT_TRUE(torch::equal(first.model, same.model));
  EXPECT_FALSE(torch::equal(first.model, other.model));
  FedLora fedlora({.ranks = {2, 4, 8}});
  int different = 0;
  for (ClientId client = 0; client < 50; ++client) {
    different += fedlora.rank_of(1, client, 8) != fedlora.rank_of(2, client, 8) ? 1 : 0;
  }
  EXPECT_GT(different, 20);
}

/// Changes what clients say on its way.
class Tampered : public ForwardingFederation {
 public:
  Tampered(Federation& inner, std::function<void(Reply&)> change)
      : ForwardingFederation(inner), change_(std::move(change)) {}
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    const auto replies = std::make_shared<Replies>(inner().ask(cohort, std::move(request)));
    return Replies([this, replies] {
      std::optional<Reply> reply = replies->next();
      if (reply) change_(*reply);
      return reply;
    });
  }

 private:
  std::function<void(Reply&)> change_;
};

TEST(Algorithms, ClientsThatSayNonsenseAreLeftOut) {
  const auto run = [](const std::string& name, Weighting weighting, std::vector<ClientId> order,
                      const std::function<void(Reply&)>& change) {
    World world{.clients = three_clients()};
    LocalFederation local(quadratic::federation_input(world));
    Tampered federation(local, change);
    const auto mean = Aggregations::make("mean");
    std::vector<Member> cohort;
    for (const ClientId id : order) cohort.push_back({id, 1});
    at::Tensor model = beginning();
    RoundInput input{federation, *mean, cohort, model, 1, 10, 0, weighting};
    const RoundResult result = Algorithms::make(name)->round(input);
    EXPECT_EQ(result.failed.size(), order.size() - 2) << name;
    return model;
  };
  const auto lie = [](const char* number, std::optional<double> value) {
    return [=](Reply& reply) {
      if (reply.client != 1) return;
      reply.body.numbers.erase(number);
      if (value) reply.body.numbers[number] = *value;
    };
  };
  const auto honest = [](Reply&) {};
  for (const std::optional<double> value :
       std::vector<std::optional<double>>{std::nan(""), HUGE_VAL, -1.0, 0.0, std::nullopt}) {
    EXPECT_TRUE(torch::equal(run("fednova", Weighting::kExamples, {0, 1, 2}, lie("reach", value)),
                             run("fednova", Weighting::kExamples, {0, 2}, honest)));
    EXPECT_TRUE(torch::equal(run("fedavg", Weighting::kExamples, {0, 1, 2}, lie("examples", value)),
                             run("fedavg", Weighting::kExamples, {0, 2}, honest)));
    if (!value) continue;  // without batches the examples count
    EXPECT_TRUE(torch::equal(run("fedavg", Weighting::kBatches, {0, 1, 2}, lie("batches", value)),
                             run("fedavg", Weighting::kBatches, {0, 2}, honest)));
  }
}

TEST(Algorithms, ScaffoldsControlStaysTheMeanOfItsClientsWhenSomeAreLeftOut) {
  Trial run("scaffold", three_clients());
  for (int round = 0; round < 4; ++round) {
    World& world = run.world;
    LocalFederation local(quadratic::federation_input(world));
    // One reply gets lost each round, after its client has trained.
    Tampered federation(local, [&](Reply& reply) {
      if (reply.client == run.round % 3) reply.failure = "lost";
    });
    const auto mean = Aggregations::make("mean");
    const std::vector<Member> cohort{{0, 1}, {1, 1}, {2, 1}};
    run.algorithm->round({federation, *mean, cohort, run.model, ++run.round, 10});
    at::Tensor sum = torch::zeros({4});
    for (const auto& entry : world.states) {
      if (entry.second.contains("scaffold.control")) sum += entry.second.at("scaffold.control");
    }
    EXPECT_TRUE(torch::allclose(run.algorithm->state().at("control"), sum / 3, 1e-5, 1e-5)) << round;
  }
}

TEST(Algorithms, WeighByBatchesOrEqually) {
  Trial equal("fedavg", three_clients()), batches("fedavg", three_clients());
  equal.weighting = Weighting::kEqual;
  batches.weighting = Weighting::kBatches;
  equal.step();
  batches.step();
  at::Tensor updates[3];
  const double shares[] = {1.0 / 9, 3.0 / 9, 5.0 / 9};
  at::Tensor mean = beginning(), by_batches = beginning();
  for (std::size_t k = 0; k < 3; ++k) {
    Trial alone("fedavg", {three_clients()[k]});
    alone.step();
    updates[k] = alone.model - beginning();
    mean = mean + updates[k] / 3;
    by_batches = by_batches + updates[k] * shares[k];
  }
  EXPECT_TRUE(torch::allclose(equal.model, mean, 1e-6, 1e-6));
  EXPECT_TRUE(torch::allclose(batches.model, by_batches, 1e-6, 1e-6));
}

}  // namespace
}  // namespace chorus::inline contract
