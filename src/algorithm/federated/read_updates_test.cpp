#include "algorithm/federated/read_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "algorithm/federated/collect.h"
#include "core/base/error.h"

namespace chorus::inline federated {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Prepared replies, in the order of arrival.
class WrittenReplies : public Federation {
 public:
  explicit WrittenReplies(std::vector<double> sizes) : roster_(Roster::of_sizes(sizes)) {}
  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }
  bool real_time() const override { return real; }
  Replies ask(std::span<const ClientId> cohort, Request given) override {
    asked.assign(cohort.begin(), cohort.end());
    request = std::move(given);
    std::vector<std::size_t> order = arrival;
    if (order.empty()) {
      for (std::size_t slot = 0; slot < asked.size(); ++slot) order.push_back(slot);
    }
    return Replies([this, order, next = std::size_t{0}]() mutable -> std::optional<Reply> {
      if (next == order.size()) return std::nullopt;
      const std::size_t slot = order[next++];
      Reply reply;
      reply.body.tensors["update"] = torch::full({3}, static_cast<float>(asked[slot]), at::kFloat);
      reply.body.numbers = {
          {"examples", 1.0 + asked[slot]}, {"batches", 2}, {"steps", 4}, {"loss", 0.5}, {"seconds", 3}};
      if (change) change(asked[slot], reply);
      reply.client = asked[slot];
      reply.slot = slot;
      reply.on_accept = [this, id = asked[slot]] { accepted.push_back(id); };
      return reply;
    });
  }

  std::vector<std::size_t> arrival;  // slots; empty: in the order of the cohort
  std::function<void(ClientId, Reply&)> change;
  std::vector<ClientId> asked, accepted;
  bool real = false;  // clients of other processes
  Request request;

 private:
  Roster roster_;
};

class ReadUpdatesTest : public testing::Test {
 protected:
  std::vector<ClientReport> read(Weighting weighting = Weighting::kExamples) {
    AggregationInput input{.federation = clients, .cohort = cohort, .request = {.procedure = "train", .round = 1}};
    input.size = 3;
    input.weighting = weighting;
    input.tensors = tensors;
    input.look = look;
    used.clear();
    skipped.clear();
    return read_updates(input, {.use = [&](std::size_t slot, const std::vector<double>& weights,
                                           const std::vector<at::Tensor>&) { used[slot] = weights; },
                                .skip = [&](std::size_t slot) { skipped.push_back(slot); }});
  }
  /// Why client 1's reply is refused after `change`; the others must be used.
  std::string refused(std::function<void(Reply&)> change) {
    clients.change = [change](ClientId id, Reply& reply) {
      if (id == 1) change(reply);
    };
    clients.accepted.clear();
    const auto reports = read();
    EXPECT_THAT(clients.accepted, ElementsAre(0, 2));
    EXPECT_THAT(skipped, ElementsAre(1));
    EXPECT_EQ(reports[0].failure, "");
    EXPECT_EQ(reports[2].failure, "");
    EXPECT_EQ(reports[1].weight, 0);
    EXPECT_EQ(reports[1].examples, 0);
    return reports[1].failure;
  }

  WrittenReplies clients{{1, 2, 3, 4}};
  std::vector<Member> cohort{{0, 1}, {1, 1}, {2, 1}};
  std::vector<AggregatedTensor> tensors{{}};
  std::function<void(Reply&, double)> look;
  std::map<std::size_t, std::vector<double>> used;
  std::vector<std::size_t> skipped;
};

TEST_F(ReadUpdatesTest, WeighsByExamplesBatchesOrEqually) {
  cohort[2].times = 3;  // drawn three times
  read();
  EXPECT_EQ(used, (std::map<std::size_t, std::vector<double>>{{0, {1}}, {1, {2}}, {2, {9}}}));
  read(Weighting::kBatches);
  EXPECT_EQ(used, (std::map<std::size_t, std::vector<double>>{{0, {2}}, {1, {2}}, {2, {6}}}));
  const auto reports = read(Weighting::kEqual);
  EXPECT_EQ(used, (std::map<std::size_t, std::vector<double>>{{0, {1}}, {1, {1}}, {2, {3}}}));
  EXPECT_EQ(reports[2].weight, 3);
  EXPECT_EQ(reports[2].examples, 3);
  EXPECT_EQ(reports[2].seconds, 3);
}

TEST_F(ReadUpdatesTest, WithoutBatchesExamplesCount) {
  clients.change = [](ClientId, Reply& reply) { reply.body.numbers.erase("batches"); };
  read(Weighting::kBatches);
  EXPECT_EQ(used.at(1), std::vector<double>{2});
}

TEST_F(ReadUpdatesTest, ATensorMayIgnoreWeights) {
  tensors = {{}, {.name = "update", .equal = true}};
  read();
  EXPECT_THAT(used.at(2), ElementsAre(3, 1));
}

TEST_F(ReadUpdatesTest, RepliesThatCannotBeUsedFailTheirClientOnly) {
  EXPECT_EQ(refused([](Reply& reply) { reply.failure = "no battery"; }), "no battery");
  EXPECT_THAT(refused([](Reply& reply) { reply.body.tensors.clear(); }), HasSubstr("update"));
  EXPECT_THAT(refused([](Reply& reply) { reply.body.tensors["update"] = torch::zeros({4}); }), HasSubstr("update"));
  EXPECT_THAT(refused([](Reply& reply) { reply.body.tensors["update"] = torch::zeros({3}, at::kDouble); }),
              HasSubstr("update"));
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_THAT(refused([bad](Reply& reply) { reply.body.tensors["update"][1] = bad; }), HasSubstr("not finite"));
  }
  for (const double bad : {std::nan(""), HUGE_VAL, 0.0, -2.0, 1e300}) {  // 1e300 is no finite float32
    EXPECT_THAT(refused([bad](Reply& reply) { reply.body.numbers["examples"] = bad; }), HasSubstr("examples"));
  }
  EXPECT_THAT(refused([](Reply& reply) { reply.body.numbers.erase("examples"); }), HasSubstr("examples"));
  EXPECT_THAT(refused([](Reply& reply) { reply.body.numbers["loss"] = std::nan(""); }), HasSubstr("loss"));
}

TEST_F(ReadUpdatesTest, BatchesAsAWeightAreChecked) {
  for (const double bad : {std::nan(""), HUGE_VAL, 0.0, -2.0}) {
    clients.change = [bad](ClientId id, Reply& reply) {
      if (id == 1) reply.body.numbers["batches"] = bad;
    };
    const auto reports = read(Weighting::kBatches);
    EXPECT_THAT(reports[1].failure, HasSubstr("batches should be a positive number"));
    EXPECT_FALSE(used.contains(1));
  }
}

TEST_F(ReadUpdatesTest, ReportedNumbersThatAreNotFiniteBecomeZero) {
  clients.change = [](ClientId, Reply& reply) {
    reply.body.numbers["steps"] = std::nan("");
    reply.body.numbers["seconds"] = -4;
  };
  const auto reports = read();
  EXPECT_EQ(reports[0].failure, "");
  EXPECT_EQ(reports[0].steps, 0);
  EXPECT_EQ(reports[0].seconds, 0);
}

TEST_F(ReadUpdatesTest, TensorsMarkedFiniteAreNotCheckedAgain) {
  clients.change = [](ClientId, Reply& reply) {
    reply.body.tensors["update"][0] = std::nan("");
    reply.finite = "update";  // marked as checked by a sender in this process
  };
  EXPECT_EQ(read()[0].failure, "");
}

TEST_F(ReadUpdatesTest, ALookMayRefuseAReply) {
  std::vector<double> weights;
  look = [&](Reply& reply, double weight) {
    weights.push_back(weight);
    if (reply.client == 1) throw DataError("its reach should be a positive number");
  };
  const auto reports = read();
  EXPECT_THAT(weights, ElementsAre(1, 2, 3));
  EXPECT_THAT(reports[1].failure, HasSubstr("reach"));
  EXPECT_THAT(clients.accepted, ElementsAre(0, 2));
}

TEST_F(ReadUpdatesTest, AClientThatNeverRepliesHasFailed) {
  clients.arrival = {2, 0};
  const auto reports = read();
  EXPECT_EQ(reports[1].failure, "it did not reply");
  EXPECT_THAT(clients.accepted, ElementsAre(2, 0));
}

class CollectTest : public testing::Test {
 protected:
  Collected run() {
    RoundInput input{clients, *mean, cohort, model, 1, 10, 5};
    input.enough = enough;
    return collect(input, request_with_model(input, "train"));
  }

  WrittenReplies clients{{10, 30, 20, 30}};
  std::unique_ptr<Aggregation> mean = Aggregations::make("mean");
  std::vector<Member> cohort{{0, 1}, {1, 1}, {2, 1}, {3, 1}};
  at::Tensor model = torch::zeros({3}, at::kFloat);
  std::size_t enough = 0;
};

TEST_F(CollectTest, AsksTheLargestClientsFirst) {
  const Collected first = run();
  EXPECT_THAT(clients.asked, ElementsAre(1, 3, 2, 0));  // 30, 30, 20, 10 examples
  std::swap(cohort[0], cohort[3]);
  clients.arrival = {3, 1, 0, 2};
  const Collected other = run();
  EXPECT_THAT(clients.asked, ElementsAre(1, 3, 2, 0));
  EXPECT_TRUE(torch::equal(first.means[0], other.means[0]));
  // (0 * 1 + 1 * 2 + 2 * 3 + 3 * 4) / 10
  EXPECT_FLOAT_EQ(first.means[0][0].item<float>(), 2.0F);
}

TEST_F(CollectTest, SumsWhatClientsReport) {
  clients.change = [](ClientId id, Reply& reply) {
    reply.body.numbers["loss"] = id;
    reply.cost.seconds = 10.0 * id;
    reply.cost.joules = 8;
    reply.cost.bytes_up = 4;
    reply.cost.memory = 1e6 * id;
    if (id == 3) reply.failure = "late";
    if (id == 3) reply.left_out = true;
  };
  const RoundResult result = run().result;
  EXPECT_EQ(result.examples, 6);  // 1 + 2 + 3
  EXPECT_EQ(result.steps, 12);
  EXPECT_EQ(result.seconds, 9);
  EXPECT_DOUBLE_EQ(result.loss, (1 * 2 + 2 * 3) / 6.0);  // by the weights of the update
  ASSERT_EQ(result.failed.size(), 1U);
  EXPECT_EQ(result.failed[0].first, 3U);
  EXPECT_THAT(result.emulated.left_out, ElementsAre(3));
  // The server waits for the slowest, used or not; all energy counts.
  EXPECT_EQ(result.emulated.totals.seconds, 30);
  EXPECT_EQ(result.emulated.totals.joules, 32);
  EXPECT_EQ(result.emulated.totals.client_joules, 8);
  EXPECT_EQ(result.emulated.totals.client_bytes, 4);
  EXPECT_EQ(result.emulated.totals.memory, 3e6);
}

TEST_F(CollectTest, WhenAllFailThereIsNoMean) {
  clients.change = [](ClientId, Reply& reply) { reply.failure = "no battery"; };
  const Collected collected = run();
  EXPECT_FALSE(collected.means[0].defined());
  EXPECT_TRUE(std::isnan(collected.result.loss));
  EXPECT_EQ(collected.result.failed.size(), 4U);
}

TEST_F(CollectTest, WhenAllOfOtherProcessesFailTheRoundIsRepeated) {
  clients.real = true;
  clients.change = [](ClientId client, Reply& reply) { reply.failure = client == 3 ? "" : "no battery"; };
  EXPECT_TRUE(run().means[0].defined());
  clients.change = [](ClientId, Reply& reply) { reply.body.numbers["examples"] = -1; };
  EXPECT_THROW(run(), TooFewReplies);
}

TEST_F(CollectTest, TheRequestHoldsACopyOfTheModel) {
  run();
  const at::Tensor sent = clients.request.body.tensor("model");
  model.add_(1);
  EXPECT_EQ(sent.sum().item<float>(), 0);
}

TEST_F(CollectTest, ASubcohortNeedsItsShareOfReplies) {
  enough = 3;
  RoundInput input{clients, *mean, cohort, model, 1, 10, 5};
  input.enough = enough;
  const std::vector<Member> half{{0, 1}, {1, 1}};
  const RoundInput part = part_of(input, half, model);
  EXPECT_EQ(part.enough, 2U);  // half of 3, rounded up
  EXPECT_EQ(part.seed, 5U);
  EXPECT_EQ(part_of(input, cohort, model).enough, 3U);
  run();
  EXPECT_EQ(clients.request.enough, 3U);
}

TEST(Join, AddsWorkAndTakesTheSlowerClock) {
  RoundResult sum, a, b;
  sum.loss = std::nan("");
  a.examples = 30;
  a.loss = 1;
  a.steps = 3;
  a.emulated.totals = {.seconds = 5, .joules = 2, .client_joules = 1, .client_bytes = 10, .memory = 7};
  a.failed = {{4, "x"}};
  b.examples = 10;
  b.loss = 2;
  b.steps = 4;
  b.emulated.totals = {.seconds = 3, .joules = 4, .client_joules = 2, .client_bytes = 5, .memory = 9};
  b.emulated.left_out = {8};
  join(sum, a);
  EXPECT_EQ(sum.loss, 1);
  join(sum, b);
  EXPECT_DOUBLE_EQ(sum.loss, 1.25);
  EXPECT_EQ(sum.examples, 40);
  EXPECT_EQ(sum.steps, 7);
  EXPECT_EQ(sum.failed.size(), 1U);
  EXPECT_THAT(sum.emulated.left_out, ElementsAre(8));
  EXPECT_EQ(sum.emulated.totals.seconds, 5);
  EXPECT_EQ(sum.emulated.totals.joules, 6);
  EXPECT_EQ(sum.emulated.totals.memory, 9);
  // A group that trained on nothing does not affect the loss.
  RoundResult nothing;
  nothing.loss = std::nan("");
  join(sum, nothing);
  EXPECT_DOUBLE_EQ(sum.loss, 1.25);
}

TEST(CostOfAsking, AnEmptyCohortCostsNothing) {
  const EmulatedTotals totals = cost_of_asking({});
  EXPECT_EQ(totals.seconds, 0);
  EXPECT_EQ(totals.client_joules, 0);
}

}  // namespace
}  // namespace chorus::inline federated
