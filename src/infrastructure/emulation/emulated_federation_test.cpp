#include "infrastructure/emulation/emulated_federation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline emulation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Client c answers with c + 1 batches and 1 MB, in reverse order of being asked; client 9 has no data.
class TenClients : public Federation {
 public:
  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return traffic_; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    asked.assign(cohort.begin(), cohort.end());
    requests.push_back(request.procedure);
    const auto next = std::make_shared<std::size_t>(cohort.size());
    return Replies([this, next, request]() -> std::optional<Reply> {
      if (*next == 0) return std::nullopt;
      const std::size_t slot = --*next;
      Reply reply{asked[slot], slot, {}, roster_.size_of(asked[slot]) > 0 ? "" : "it has no training data"};
      reply.bytes_down = 2'000'000;
      reply.bytes_up = 1'000'000;
      reply.on_accept = [this, client = reply.client] { accepted.push_back(client); };
      traffic_.down += reply.bytes_down;
      traffic_.up += reply.bytes_up;
      reply.body.numbers["who"] = asked[slot];
      if (request.procedure == "train") reply.body.numbers["batches"] = asked[slot] + 1;
      if (request.procedure == "predict") reply.body.numbers = {{"batches", 100}, {"load", asked[slot] + 1}};
      return reply;
    });
  }

  std::vector<ClientId> asked, accepted;
  std::vector<std::string> requests;

 private:
  Roster roster_ = Roster::of_sizes(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 0});
  Traffic traffic_;
};

struct World {
  explicit World(const std::string& yaml)
      : fleet(ConfigDocument::parse(yaml, "test").load<EmulationConfig>(), 5),
        federation({.inner = inner,
                    .fleet = fleet,
                    .work = {.way = {TuningWay::Method::kAdapter, true}, .depth = 2},
                    .clock = [this] { return clock; },
                    .batches = [](ClientId client) { return client + 1.0; }}) {}

  std::vector<Reply> ask(std::vector<ClientId> cohort, Request request = {.procedure = "train", .round = 1}) {
    std::vector<Reply> replies;
    for (Reply& reply : federation.ask(cohort, std::move(request))) replies.push_back(std::move(reply));
    std::sort(replies.begin(), replies.end(), [](const Reply& a, const Reply& b) { return a.slot < b.slot; });
    EXPECT_EQ(replies.size(), cohort.size());
    for (std::size_t slot = 0; slot < replies.size(); ++slot) {
      EXPECT_EQ(replies[slot].slot, slot);
      EXPECT_EQ(replies[slot].client, cohort[slot]);
      EXPECT_EQ(replies[slot].body.number("who", cohort[slot]), cohort[slot]);
    }
    return replies;
  }

  double clock = 0;
  TenClients inner;
  Fleet fleet;
  EmulatedFederation federation;
};

std::vector<double> seconds_of(const std::vector<Reply>& replies) {
  std::vector<double> seconds;
  for (const Reply& reply : replies) seconds.push_back(reply.cost.seconds);
  return seconds;
}
std::vector<ClientId> answered(const std::vector<Reply>& replies) {
  std::vector<ClientId> clients;
  for (const Reply& reply : replies) {
    if (reply.ok()) clients.push_back(reply.client);
    EXPECT_EQ(reply.left_out, !reply.ok() && reply.client != 9);
  }
  return clients;
}

constexpr double kBatch = 0.18;  // Jetson TX2, adapters cached, depth 2

TEST(EmulatedFederation, FillsInWhatAnAnswerCosts) {
  World world("{}");
  const auto replies = world.ask({3, 0, 8});
  EXPECT_THAT(seconds_of(replies), ElementsAre(testing::DoubleEq(3 + 4 * kBatch), testing::DoubleEq(3 + kBatch),
                                               testing::DoubleEq(3 + 9 * kBatch)));
  const Cost& cost = replies[0].cost;
  EXPECT_DOUBLE_EQ(cost.compute_seconds, 4 * kBatch);
  EXPECT_DOUBLE_EQ(cost.network_seconds, 3);
  EXPECT_DOUBLE_EQ(cost.joules, 12 * 4 * kBatch + 4 * 3);
  EXPECT_EQ(cost.bytes_down, 2e6);
  EXPECT_EQ(cost.bytes_up, 1e6);
  EXPECT_GT(cost.memory, 0.72e9);
  EXPECT_EQ(world.federation.traffic().down, 6'000'000U);
}

/// Ten clients, of which odd ones have another network.
class TwoNetworks : public TenClients {
 public:
  TwoNetworks() {
    const Roster all = TenClients().roster();
    std::vector<RosterEntry> members(all.members().begin(), all.members().end());
    for (RosterEntry& member : members) member.model = member.id % 2 == 1 ? "lora" : "";
    mixed_ = Roster(std::move(members));
  }
  const Roster& roster() const override { return mixed_; }

 private:
  Roster mixed_;
};

TEST(EmulatedFederation, EveryClientPaysForItsOwnNetwork) {
  World world("{}");
  TwoNetworks inner;
  const EmulatedWork deep{.way = {TuningWay::Method::kAdapter, true}, .depth = 6},
      shallow{.way = {TuningWay::Method::kAdapter, true}, .depth = 2};
  EmulatedFederation federation(
      {.inner = inner, .fleet = world.fleet, .work = deep, .network_work = {{"lora", shallow}}});
  const std::vector<ClientId> cohort{2, 3};
  std::map<ClientId, double> batch;
  for (const Reply& reply : federation.ask(cohort, {.procedure = "train", .round = 1})) {
    batch[reply.client] = reply.cost.compute_seconds / (reply.client + 1);
  }
  EXPECT_DOUBLE_EQ(batch[2], 0.54);
  EXPECT_DOUBLE_EQ(batch[3], kBatch);
}

TEST(EmulatedFederation, ARequestMaySayHowDeepItGoes) {
  World world("{}");
  Request request{.procedure = "train", .round = 1};
  request.body.numbers["depth"] = 6;
  EXPECT_DOUBLE_EQ(world.ask({0}, request)[0].cost.compute_seconds, 0.54);
  request.body.numbers["cached"] = 0;
  EXPECT_DOUBLE_EQ(world.ask({0}, request)[0].cost.compute_seconds, 0.79);
  request.body.numbers["depth"] = 13;
  EXPECT_THROW(world.ask({0}, request), ConfigError);
}

TEST(EmulatedFederation, MeasuringIsFreeAndALossIsAThirdOfATrainingPass) {
  World world("{deadline: 0.001, dropout: 1}");
  for (const char* procedure : {"evaluate", "local/evaluate"}) {
    const auto replies = world.ask({1, 2}, {.procedure = procedure, .round = 1});
    EXPECT_THAT(seconds_of(replies), ElementsAre(0, 0));
    EXPECT_THAT(answered(replies), ElementsAre(1, 2));
  }
  World plain("{}");
  EXPECT_DOUBLE_EQ(plain.ask({2}, {.procedure = "loss", .round = 1})[0].cost.compute_seconds, kBatch);
  // Batches weigh; the work may be another number.
  EXPECT_DOUBLE_EQ(plain.ask({2}, {.procedure = "predict", .round = 1})[0].cost.compute_seconds, 3 * kBatch);
  EXPECT_DOUBLE_EQ(plain.ask({2}, {.procedure = "fedsgd/gradient", .round = 1})[0].cost.compute_seconds, 3 * kBatch);
}

TEST(EmulatedFederation, AnswersBehindTheDeadlineAreLeftOut) {
  World world("{deadline: 4}");  // 3 s of network: five batches are in time, six are not
  const auto replies = world.ask({0, 4, 5, 8, 9});
  EXPECT_THAT(answered(replies), ElementsAre(0, 4));
  EXPECT_THAT(replies[2].failure, HasSubstr("deadline"));
  EXPECT_TRUE(replies[2].body.numbers.empty());
  EXPECT_EQ(replies[2].cost.seconds, 4);                          // so long the server waited
  EXPECT_DOUBLE_EQ(replies[2].cost.compute_seconds, 6 * kBatch);  // it worked all the same
  EXPECT_EQ(replies[2].cost.bytes_up, 1e6);
  EXPECT_EQ(replies[4].cost.seconds, 0);  // no data, no work
}

TEST(EmulatedFederation, OverSelectionTakesTheFirstToAnswer) {
  World world("{over_selection: 1.5}");
  const Request four{.procedure = "train", .round = 1, .enough = 4};
  const auto replies = world.ask({8, 1, 3, 0, 7, 2}, four);
  for (const Reply& reply : replies) reply.accept();
  EXPECT_THAT(world.inner.accepted, ElementsAre(1, 3, 0, 2));  // the others keep the state they had
  EXPECT_THAT(answered(replies), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(replies[0].failure, HasSubstr("4 others"));
  EXPECT_DOUBLE_EQ(replies[0].cost.seconds, 3 + 4 * kBatch);  // the server stopped waiting with client 3
  EXPECT_DOUBLE_EQ(replies[0].cost.compute_seconds, 9 * kBatch);
  EXPECT_EQ(world.federation.traffic().up, 6'000'000U);  // everybody's traffic is counted
  // Both: those behind the deadline do not count among the first.
  World both("{over_selection: 1.5, deadline: 3.5}");  // two batches
  EXPECT_THAT(answered(both.ask({8, 1, 3, 0, 7, 2}, four)), ElementsAre(1, 0));
  EXPECT_EQ(both.ask({8, 1, 3, 0, 7, 2}, four)[0].cost.seconds, 3.5);
  // No more could be reached than the round needs: all of them count.
  EXPECT_THAT(answered(world.ask({8, 1, 3, 0}, four)), ElementsAre(8, 1, 3, 0));
}

TEST(EmulatedFederation, ClientsThatVanishAreNotAsked) {
  World world("{dropout: 0.4}");
  std::set<ClientId> gone;
  for (std::uint64_t round = 1; round <= 30; ++round) {
    const auto replies = world.ask({0, 1, 2, 3, 4, 5}, {.procedure = "train", .round = round});
    EXPECT_EQ(answered(replies), world.inner.asked);
    for (const Reply& reply : replies) {
      if (reply.ok()) continue;
      gone.insert(reply.client);
      EXPECT_THAT(reply.failure, HasSubstr("vanished"));
      EXPECT_LT(reply.cost.seconds, 3 + 9 * kBatch);
      EXPECT_GE(reply.cost.joules, 4 * reply.cost.seconds - 1e-9);  // it spent at least the link's power
      EXPECT_LE(reply.cost.joules, 12 * reply.cost.seconds + 1e-9);
      EXPECT_NEAR(reply.cost.compute_seconds + reply.cost.network_seconds, reply.cost.seconds, 1e-12);
    }
    EXPECT_EQ(seconds_of(replies), seconds_of(world.ask({0, 1, 2, 3, 4, 5}, {.procedure = "train", .round = round})));
  }
  EXPECT_EQ(gone.size(), 6U);
  World all("{dropout: 1, deadline: 60}");
  const auto replies = all.ask({0, 1});
  EXPECT_TRUE(all.inner.requests.empty());
  EXPECT_THAT(seconds_of(replies), ElementsAre(60, 60));
  World chosen("{dropout: 1, over_selection: 2}");
  EXPECT_THAT(answered(chosen.ask({0, 1}, {.procedure = "train", .round = 1, .enough = 1})), ElementsAre());
}

TEST(EmulatedFederation, DevicesWithoutTheMemoryAreNotAskedAndMayTrainAShare) {
  // A batch at depth 2 takes 0.72 + (3.8 - 0.72) 2 / 12 GB.
  World small("{fleet: [{profile: jetson_tx2, memory: 0.7}]}"), large("{fleet: [{profile: jetson_tx2}]}");
  const double capacity = 0.7 / (0.72 + (3.8 - 0.72) * 2 / 12);
  ASSERT_TRUE(small.federation.roster().find(3)->capacity.has_value());
  EXPECT_NEAR(*small.federation.roster().find(3)->capacity, capacity, 1e-9);
  EXPECT_FALSE(large.federation.roster().find(3)->capacity.has_value());
  for (const Reply& reply : small.ask({1, 3})) {
    EXPECT_TRUE(reply.left_out);
    EXPECT_THAT(reply.failure, HasSubstr("memory for 57 %"));
    EXPECT_EQ(reply.cost.seconds, 0);
  }
  EXPECT_TRUE(small.inner.requests.empty());
  Request half{.procedure = "train", .round = 1};
  half.body.numbers = {{"share", 0.5}, {"depth", 7}};
  const Cost part = small.ask({3}, half)[0].cost, whole = large.ask({3})[0].cost;
  EXPECT_NEAR(part.compute_seconds, whole.compute_seconds / 2, 1e-9);
  EXPECT_NEAR(part.memory, whole.memory / 2, 1);
}

TEST(EmulatedFederation, AMixedFleetIsAsSlowAsItsSlowest) {
  World world("{fleet: [{profile: jetson_tx2}, {profile: rpi_4b}], stragglers: {share: 0.5, slowdown: 3}}");
  const auto replies = world.ask({0, 1, 2, 3, 4, 5, 6, 7, 8});
  std::set<double> factors;
  for (const Reply& reply : replies)
    factors.insert(std::round(reply.cost.compute_seconds / kBatch / (reply.client + 1)));
  for (const double factor : factors) EXPECT_THAT(factor, testing::AnyOf(1, 3, 20, 60));
  EXPECT_GE(factors.size(), 3U);
}

}  // namespace
}  // namespace chorus::inline emulation
