// FedBuff on the emulated clock, with clients whose training has a closed form.
#include "algorithm/federated/fedbuff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <set>

#include "core/config/config.h"
#include "infrastructure/emulation/emulated_federation.h"
#include "tests/contract/quadratic_clients.h"

namespace chorus::inline contract {
namespace {

using quadratic::Client;

/// Clients on identical devices: a client with n steps takes n * 1.7 s, and almost no time for its few bytes.
struct Devices {
  explicit Devices(std::vector<Client> clients, const std::string& emulation = "{}")
      : world{.clients = std::move(clients)},
        fleet(ConfigDocument::parse(emulation, "test").load<EmulationConfig>(), 11) {}

  RoundResult step(Algorithm& algorithm, std::vector<ClientId> order) {
    std::vector<Member> cohort;
    for (const ClientId id : order) cohort.push_back({id, 1});
    LocalFederation local(quadratic::federation_input(world));
    EmulatedFederation federation({.inner = local, .fleet = fleet, .batches = [this](ClientId id) {
                                     return static_cast<double>(world.clients[id].steps);
                                   }});
    RoundInput input{federation, *aggregation, cohort, model, ++round, 10, seed};
    input.weighting = Weighting::kEqual;
    return algorithm.round(input);
  }

  quadratic::World world;
  Fleet fleet;
  at::Tensor model = torch::linspace(-1, 1, 4, at::kFloat);
  std::uint64_t round = 0, seed = 0;
  std::unique_ptr<Aggregation> aggregation = Aggregations::make("mean");
};

// A client's update of a model.
at::Tensor update_of(const Client& client, const at::Tensor& model) {
  const at::Tensor centre = torch::arange(4, at::kFloat) / 10 + client.target;
  return (centre - model) * (1 - std::pow(1 - 0.1 * client.curvature, client.steps));
}

const std::vector<Client> kThree{{.curvature = 0.5, .target = -1.0, .steps = 1, .examples = 10},
                                 {.curvature = 1.0, .target = 0.5, .steps = 3, .examples = 20},
                                 {.curvature = 2.0, .target = 2.0, .steps = 5, .examples = 70}};

TEST(FedBuff, OneAtATimeIsFedAvg) {
  Devices first(kThree), second(kThree);
  FedBuff fedbuff({.buffer = 1, .concurrency = 1});
  const auto fedavg = Algorithms::make("fedavg");
  for (const ClientId client : {0U, 2U, 1U, 1U, 0U}) {
    first.step(fedbuff, {client});
    second.step(*fedavg, {client});
    EXPECT_TRUE(torch::equal(first.model, second.model));
  }
}

TEST(FedBuff, UpdatesAreWeightedByStalenessInOrderOfArrival) {
  Devices devices(kThree);
  FedBuff fedbuff({.buffer = 1, .concurrency = 3});
  // All start at 0. Client 0 finishes at 1.7, restarts, finishes at 3.4, and so on; client 1 finishes at 5.1, a few
  // bytes before client 0's third time; client 2 does not reply before 8.5.
  const at::Tensor w0 = devices.model.clone();
  const at::Tensor w1 = w0 + update_of(kThree[0], w0);
  const at::Tensor w2 = w1 + update_of(kThree[0], w1);
  const at::Tensor w3 = w2 + update_of(kThree[1], w0) / std::sqrt(3.0);  // two steps old
  const at::Tensor w4 = w3 + update_of(kThree[0], w2) / std::sqrt(2.0);
  double clock = 0;
  const std::pair<at::Tensor, double> expected[] = {{w1, 1.7}, {w2, 3.4}, {w3, 5.1}, {w4, 5.1}};
  const double ages[] = {0, 0, 2, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    const RoundResult result = devices.step(fedbuff, {0, 1, 2});
    clock += result.emulated.totals.seconds;
    EXPECT_NEAR(clock, expected[i].second, 0.01) << i;
    EXPECT_EQ(result.numbers.at("staleness"), ages[i]) << i;
    EXPECT_TRUE(torch::allclose(devices.model, expected[i].first, 1e-5, 1e-6))
        << i << devices.model << expected[i].first;
  }
}

TEST(FedBuff, AReplacementWithinARoundStartsFromTheOldModel) {
  // Equal clients and K = 2 of M = 2: two start at 0 and finish at 1.7. The first is replaced then, starting from w0,
  // the second after the step, starting from w1: both arrive at 3.4, one of them one step old.
  const std::vector<Client> same(4, Client{.curvature = 1, .target = 1, .steps = 1, .examples = 1});
  Devices devices(same);
  FedBuff fedbuff({.buffer = 2, .concurrency = 2});
  const at::Tensor w0 = devices.model.clone(), w1 = w0 + update_of(same[0], w0);
  RoundResult result = devices.step(fedbuff, {0, 1, 2, 3});
  EXPECT_TRUE(torch::allclose(devices.model, w1, 1e-6, 1e-6));
  EXPECT_EQ(result.numbers.at("in_flight"), 1);
  result = devices.step(fedbuff, {0, 1, 2, 3});
  EXPECT_EQ(result.numbers.at("staleness"), 0.5);
  EXPECT_NEAR(result.emulated.totals.seconds, 1.7, 0.01);
  const at::Tensor w2 = w1 + (update_of(same[0], w0) / std::sqrt(2.0) + update_of(same[0], w1)) / 2;
  EXPECT_TRUE(torch::allclose(devices.model, w2, 1e-6, 1e-6));
}

std::vector<Client> many() {
  std::vector<Client> clients;
  for (int k = 0; k < 30; ++k) {
    clients.push_back({.curvature = 0.1 * k + 0.3, .target = k * 0.3 - 3, .steps = 1 + k % 7, .examples = 1.0 + k % 5});
  }
  clients[13].broken = true;
  return clients;
}

std::vector<ClientId> cohort_of(std::uint64_t round) {
  std::vector<ClientId> cohort;
  for (ClientId i = 0; i < 11; ++i) cohort.push_back(static_cast<ClientId>((round * 5 + i * 7) % 30));
  return cohort;
}

TEST(FedBuff, ResumesBitIdenticallyWithRepliesUnderWay) {
  constexpr const char* kHard = "{fleet: [{profile: jetson_tx2}, {profile: jetson_nano}], dropout: 0.2}";
  const FedBuffConfig config{.buffer = 3, .concurrency = 6};
  Devices whole(many(), kHard);
  FedBuff always(config);
  std::vector<at::Tensor> models;
  std::vector<double> seconds;
  std::vector<std::size_t> failed;
  double oldest = 0;
  for (std::uint64_t round = 0; round < 12; ++round) {
    const RoundResult result = whole.step(always, cohort_of(round));
    models.push_back(whole.model.clone());
    seconds.push_back(result.emulated.totals.seconds);
    failed.push_back(result.failed.size());
    oldest = std::max(oldest, result.numbers.at("staleness"));
    EXPECT_GE(result.emulated.totals.seconds, 0);
    EXPECT_LE(result.numbers.at("in_flight"), 6);
  }
  EXPECT_GT(oldest, 1);
  EXPECT_GT(std::accumulate(failed.begin(), failed.end(), 0U), 2U);
  // A new process every round.
  Devices again(many(), kHard);
  std::map<std::string, at::Tensor> saved;
  for (std::uint64_t round = 0; round < 12; ++round) {
    FedBuff reborn(config);
    reborn.restore(saved);
    const RoundResult result = again.step(reborn, cohort_of(round));
    EXPECT_TRUE(torch::equal(again.model, models[round])) << round;
    EXPECT_EQ(result.emulated.totals.seconds, seconds[round]);
    EXPECT_EQ(result.failed.size(), failed[round]);
    saved.clear();
    for (const auto& [name, tensor] : reborn.state()) saved[name] = tensor.clone();
  }
  saved.erase("updates");
  EXPECT_THROW(FedBuff(config).restore(saved), DataError);
}

/// Holds all clients for a while, as a secure sum does, and averages what they release.
class SlowSum : public Aggregation {
 public:
  Aggregated aggregate(AggregationInput input) override {
    Aggregated result = Aggregations::make("mean")->aggregate(std::move(input));
    for (ClientReport& report : result.clients) report.cost.seconds = kSeconds;
    return result;
  }
  static constexpr double kSeconds = 3;
};

// A sum takes time on the clock, and updates that arrive meanwhile wait for its end.
TEST(FedBuff, TheClockNeverGoesBackAndEverySumTakesItsTime) {
  std::vector<Client> clients = many();
  clients[13].broken = false;
  Devices devices(clients);
  devices.aggregation = std::make_unique<SlowSum>();
  FedBuff fedbuff({.buffer = 2, .concurrency = 8});
  double clock = 0;
  for (std::uint64_t round = 0; round < 10; ++round) {
    const RoundResult result = devices.step(fedbuff, cohort_of(round));
    EXPECT_GE(result.emulated.totals.seconds, SlowSum::kSeconds) << round;
    clock += result.emulated.totals.seconds;
    EXPECT_NEAR(fedbuff.state().at("clock")[0].item<double>(), clock, 1e-9);
  }
}

TEST(FedBuff, IsFasterThanWaitingForTheSlowest) {
  Devices waiting(many()), going(many());
  FedBuff fedbuff({.buffer = 5, .concurrency = 6});
  const auto fedavg = Algorithms::make("fedavg");
  double waited = 0, went = 0;
  for (std::uint64_t round = 0; round < 10; ++round) {
    std::vector<ClientId> cohort = cohort_of(round);
    went += going.step(fedbuff, cohort).emulated.totals.seconds;
    cohort.resize(5);
    waited += waiting.step(*fedavg, cohort).emulated.totals.seconds;
  }
  EXPECT_LT(went, 0.8 * waited);
}

/// Clients of other processes: whoever was asked first replies next. Client k's update is k + 1.
class LiveClients : public Federation {
 public:
  explicit LiveClients(std::size_t count) : roster_(Roster::of_sizes(std::vector<double>(count, 1))) {}
  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }
  bool real_time() const override { return true; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    EXPECT_TRUE(request.background);
    sent.push_back(std::move(request.body.tensors.at("model")));
    const auto inbox = std::make_shared<std::deque<Reply>>();
    for (std::size_t slot = 0; slot < cohort.size(); ++slot) {
      asked.push_back(cohort[slot]);
      working_.push_back({cohort[slot], slot, inbox});
    }
    const auto next = [inbox]() -> std::optional<Reply> {
      Reply reply = std::move(inbox->front());
      inbox->pop_front();
      return reply;
    };
    return Replies(next, [inbox] { return !inbox->empty(); });
  }
  void wait(double) override {
    const auto next = std::find_if(working_.begin(), working_.end(),
                                   [&](const Working& working) { return !stuck.contains(working.client); });
    check(next != working_.end(), "nobody replies any more");
    Reply reply{next->client, next->slot};
    if (failing.contains(next->client)) {
      reply.failure = "it crashed";
    } else {
      auto* value = new float(static_cast<float>(next->client) + 1);
      reply.body.tensors["update"] = at::from_blob(
          value, {1},
          [this](void* done) {
            --held_;
            delete static_cast<float*>(done);
          },
          at::kFloat);
      most_held = std::max(most_held, ++held_);
      reply.body.numbers["examples"] = 1;
      reply.on_accept = [this, client = next->client] { accepted.push_back(client); };
    }
    next->inbox->push_back(std::move(reply));
    working_.erase(next);
  }

  /// One step of all clients as candidates.
  RoundResult step(Algorithm& algorithm, std::size_t least) {
    std::vector<Member> cohort;
    for (const RosterEntry& client : roster_.members()) cohort.push_back({client.id, 1});
    RoundInput input{*this, *mean_, cohort, model, ++round_, 10, 3};
    input.least = least;
    return algorithm.round(input);
  }

  std::set<ClientId> failing, stuck;
  std::vector<ClientId> asked, accepted;
  std::vector<at::Tensor> sent;  // the model in each request, as if it were never downloaded
  at::Tensor model = torch::zeros({1});
  int most_held = 0;

 private:
  struct Working {
    ClientId client;
    std::size_t slot;
    std::shared_ptr<std::deque<Reply>> inbox;
  };
  Roster roster_;
  std::vector<Working> working_;
  std::unique_ptr<Aggregation> mean_ = Aggregations::make("mean");
  std::uint64_t round_ = 0;
  int held_ = 0;
};

TEST(FedBuffLive, AStepNeedsUpdatesOfSoManyClients) {
  LiveClients clients(6);
  clients.failing = {0, 2, 4};
  FedBuff fedbuff({.buffer = 5});
  const RoundResult result = clients.step(fedbuff, 3);  // 1, 3 and 5 are left
  EXPECT_EQ(result.failed.size(), 3U);
  EXPECT_EQ(clients.model.item<double>(), 4);
  EXPECT_THAT(clients.accepted, testing::UnorderedElementsAre(1, 3, 5));

  clients.failing.insert(1);
  clients.asked.clear();
  clients.accepted.clear();
  FedBuff again({.buffer = 5});
  EXPECT_THROW((void)clients.step(again, 3), TooFewReplies);
  EXPECT_EQ(clients.model.item<double>(), 4);
  EXPECT_THAT(clients.accepted, testing::IsEmpty()) << "a step that is not made teaches no client";
  EXPECT_THAT(clients.asked, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5))
      << "a client that fails at once is not asked again and again";
}

TEST(FedBuffLive, AClientThatIsStuckIsNotWaitedForAndCountsLess) {
  LiveClients clients(3);
  clients.stuck = {2};
  FedBuff fedbuff({.buffer = 2, .learning_rate = 2});
  for (const double expected : {3.0, 6.0, 9.0}) {
    EXPECT_EQ(clients.step(fedbuff, 2).numbers.at("in_flight"), 1);
    EXPECT_EQ(clients.model.item<double>(), expected);
  }
  EXPECT_EQ(std::count(clients.asked.begin(), clients.asked.end(), 2U), 1);
  clients.stuck.clear();
  const RoundResult result = clients.step(fedbuff, 2);  // client 2's update, three steps old, and that of another one
  EXPECT_EQ(result.numbers.at("staleness"), 1.5);
  const ClientId other = clients.accepted.back();
  EXPECT_NEAR(clients.model.item<double>(), 9 + 3 * 0.5 + (other + 1.0), 1e-5);
}

TEST(FedBuffLive, UpdatesAreAddedAsTheyArrive) {
  LiveClients clients(70);
  FedBuff fedbuff({.buffer = 64});
  clients.step(fedbuff, 64);
  EXPECT_EQ(clients.accepted.size(), 64U);
  EXPECT_LE(clients.most_held, 9);
}

// Clients that download slowly hold the server's memory.
TEST(FedBuffLive, RequestsOfOneVersionShareTheMemoryOfTheirModel) {
  LiveClients clients(40);
  FedBuff fedbuff({.buffer = 8, .concurrency = 4});
  std::vector<std::pair<std::size_t, at::Tensor>> steps;  // the requests before each, and its model
  for (int step = 0; step < 3; ++step) {
    steps.emplace_back(clients.sent.size(), clients.model.clone());
    clients.step(fedbuff, 1);
  }
  steps.emplace_back(clients.sent.size(), at::Tensor{});
  std::set<const void*> memory;
  for (std::size_t step = 0; step < 3; ++step) {
    ASSERT_GT(steps[step + 1].first - steps[step].first, 4U);
    std::set<const void*> of_step;
    for (std::size_t i = steps[step].first; i < steps[step + 1].first; ++i) {
      EXPECT_TRUE(torch::equal(clients.sent[i], steps[step].second)) << "a request changed after it was sent";
      EXPECT_EQ(clients.sent[i].storage().use_count(), 1U) << "a transport would copy it";
      of_step.insert(clients.sent[i].data_ptr());
    }
    EXPECT_EQ(of_step.size(), 1U);
    memory.merge(of_step);
  }
  EXPECT_EQ(memory.size(), 3U);
  EXPECT_FALSE(memory.contains(clients.model.data_ptr()));
}

}  // namespace
}  // namespace chorus::inline contract
