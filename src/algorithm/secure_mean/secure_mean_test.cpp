#include "algorithm/secure_mean/secure_mean.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "algorithm/secure/graph/graph_finder.h"
#include "algorithm/secure/light_server.h"
#include "algorithm/secure_mean/identity.h"
#include "algorithm/secure_mean/input_codec.h"
#include "algorithm/secure_mean/rare_rows.h"
#include "algorithm/secure_mean/sum_cost.h"
#include "core/base/error.h"

namespace chorus::inline secure_mean {
namespace {

SumPlan plan_of(SumProtocol protocol, std::size_t clients, std::int64_t size) {
  SumPlan plan;
  plan.protocol = protocol;
  plan.scale = {.clip = 1, .norm = 0, .bits = 18, .most_weight = 100, .clients = clients};
  plan.scale.checksum = protocol != SumProtocol::kLightSecAgg;
  plan.size = size;
  plan.seed = 9;
  return plan;
}

TEST(InputCodec, SumsAreWeightedMeansAndTotals) {
  for (const SumProtocol protocol : {SumProtocol::kSecAgg, SumProtocol::kLightSecAgg}) {
    SumPlan plan = plan_of(protocol, 3, 5);
    plan.tensors = {{.name = "a"}, {.name = "b", .equal = true}};
    const InputCodec codec(plan);
    RingVector sum(plan.ring_bits(), codec.length());
    const std::vector<double> weights{10, 30, 60}, losses{1, 2, 3};
    at::Tensor weighted = at::zeros({5}), equal = at::zeros({5});
    for (std::size_t i = 0; i < 3; ++i) {
      const at::Tensor a = at::linspace(-0.9, 0.9, 5).mul(1 - 0.3 * static_cast<double>(i)), b = a * a;
      const WorkFacts facts{weights[i], weights[i], 4, 0.5, losses[i]};
      sum.add(codec.encode({a, b}, facts, static_cast<ClientId>(i)).value());
      weighted += a * weights[i] / 100;
      equal += b / 3;
    }
    const auto sums = codec.decode(sum, 3);
    ASSERT_TRUE(sums.ok());
    EXPECT_LT((sums.value().means[0] - weighted).abs().max().item<double>(), 2e-5);
    EXPECT_LT((sums.value().means[1] - equal).abs().max().item<double>(), 2e-5);
    EXPECT_EQ(sums.value().facts.weight, 100);
    EXPECT_EQ(sums.value().facts.examples, 100);
    EXPECT_EQ(sums.value().facts.steps, 12);
    EXPECT_EQ(sums.value().facts.seconds, 1.5);
    EXPECT_NEAR(sums.value().facts.loss, 2.5, 1e-3);
    EXPECT_EQ(sums.value().cut, 0);
  }
}

TEST(InputCodec, CountsWhatIsCutOffAndBoundsWeights) {
  const InputCodec codec(plan_of(SumProtocol::kSecAgg, 3, 4));
  const auto input = codec.encode({at::full({4}, 7.0F)}, {.weight = 1e9, .examples = 1}, 0);
  const auto sums = codec.decode(input.value(), 1);
  EXPECT_EQ(sums.value().cut, 1);
  EXPECT_EQ(sums.value().facts.weight, 100);
  EXPECT_EQ(sums.value().means[0][0].item<float>(), 1);
}

// 4c, case 18, and 15.
TEST(InputCodec, Case15And18ImpossibleRepliesAreRefused) {
  Message reply;
  for (const double examples : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    reply.numbers["examples"] = examples;
    EXPECT_THROW(facts_of(reply, Weighting::kExamples), DataError);
  }
  reply.numbers = {{"examples", 3}, {"loss", std::nan("")}};
  EXPECT_THROW(facts_of(reply, Weighting::kExamples), DataError);
  const InputCodec codec(plan_of(SumProtocol::kSecAgg, 3, 1));
  EXPECT_FALSE(codec.encode({at::full({1}, std::nanf(""))}, {}, 0).ok());
}

TEST(InputCodec, RandomKSumsTheSamePositionsOfEverybody) {
  SumPlan plan = plan_of(SumProtocol::kSecAgg, 2, 1000);
  plan.keep = 0.1;
  plan.round = 4;
  const InputCodec codec(plan);
  EXPECT_EQ(codec.positions().numel(), 100);
  EXPECT_TRUE(codec.positions().equal(InputCodec(plan).positions()));
  EXPECT_LT(codec.length(), 120U);
  RingVector sum = codec.encode({at::full({1000}, 0.5F)}, {.examples = 1}, 0).value();
  const at::Tensor mean = codec.decode(sum, 1).value().means[0];
  EXPECT_EQ(mean.ne(0).sum().item<int>(), 100);
  plan.round = 5;
  EXPECT_FALSE(codec.positions().equal(InputCodec(plan).positions()));
}

// 1.6, mistake 17.
TEST(RareRows, Mistake17OnlyRowsThatEnoughClientsChangedAreSummed) {
  Layout layout;
  layout.begin_layer(kEmbeddingLayer);
  layout.add("words", {4, 3}, Init::zeros());
  layout.begin_layer(0);
  layout.add("matrix", {2, 2}, Init::zeros());
  layout.freeze([](const ParamSpec&) { return false; });
  const std::vector<RowTable> tables = word_tables(layout);
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(rows_of(tables), 4U);
  at::Tensor update = at::ones({layout.trainable_size()});
  const std::int64_t begin = tables[0].begin;
  update.narrow(0, begin + 3, 3).zero_();  // row 1 is untouched
  update.narrow(0, begin + 6, 2).zero_();  // row 2 is touched in one element
  const RingVector touched = touched_rows(update, tables, 32);
  for (std::size_t row = 0; row < 4; ++row) EXPECT_EQ(touched.at(row), row == 1 ? 0U : 1U);
  const Bytes allowed{std::byte{1}, std::byte{1}, std::byte{0}, std::byte{1}};
  const at::Tensor left = without_rows(update, tables, allowed);
  EXPECT_EQ(left.narrow(0, begin + 6, 3).abs().sum().item<float>(), 0);
  EXPECT_EQ((update - left).ne(0).sum().item<int>(), 1);
}

TEST(SumPlan, SmallCohortsHaveTheCompleteGraphAndLargeOnesASparseOne) {
  for (const std::size_t clients : {3U, 4U, 8U, 16U}) {
    const SumParameters parameters = plan_of(SumProtocol::kSecAggPlus, clients, 1).parameters(1);
    EXPECT_EQ(parameters.neighbours, clients - 1);
    EXPECT_EQ(parameters.threshold, (clients - 1) / 2 + 1);
    EXPECT_EQ(parameters.mistake(), "");
  }
  SumPlan plan = plan_of(SumProtocol::kSecAggPlus, 1000, 1);
  plan.corrupt = plan.dropout = 0.05;
  EXPECT_EQ(plan.parameters(1).neighbours,
            static_cast<std::size_t>(find_graph({.clients = 1000, .corrupt = 0.05, .dropout = 0.05}).neighbours));
  plan.trust = Trust::kActive;
  EXPECT_EQ(plan.parameters(1).mistake(), "");
  EXPECT_GT(2 * plan.parameters(1).threshold, plan.parameters(1).neighbours);
}

// The complete graph bears less than half of the cohort. More must be refused, not replaced by what it bears.
TEST(SumPlan, Mistake3SharesThatASmallCohortCannotBearAreRefused) {
  const auto with = [](std::size_t clients, double corrupt, double dropout, Trust trust = Trust::kSemiHonest) {
    SumPlan plan = plan_of(SumProtocol::kSecAggPlus, clients, 1);
    plan.corrupt = corrupt;
    plan.dropout = dropout;
    plan.trust = trust;
    return plan.parameters(1);
  };
  EXPECT_EQ(with(20, 0.45, 0.45).colluding, 9U);
  EXPECT_THROW(with(20, 0.5, 0.2), ConfigError);
  EXPECT_THROW(with(20, 0.1, 0.5), ConfigError);
  EXPECT_THROW(with(1000, 0.45, 0.5), ConfigError);
  EXPECT_EQ(with(20, 0.3, 0.3, Trust::kActive).threshold, 13U);
  EXPECT_THROW(with(20, 0.35, 0.2, Trust::kActive), ConfigError);
  EXPECT_THROW(with(20, 0.1, 0.35, Trust::kActive), ConfigError);
  for (std::size_t clients = 3; clients <= 30; ++clients) {
    EXPECT_NO_THROW(with(clients, 0.1, 0.2));
    EXPECT_NO_THROW(with(clients, 0.1, 0.2, Trust::kActive));
  }
}

TEST(SumCost, EqualsTheBytesOfTheMessages) {
  for (const SumProtocol protocol : {SumProtocol::kSecAgg, SumProtocol::kLightSecAgg}) {
    const SumPlan plan = plan_of(protocol, 6, 50);
    const InputCodec codec(plan);
    const SumSession session = session_of(plan, {{1, 2, 3, 5, 8, 13}, {}, {}, codec.length()});
    std::map<ClientId, std::unique_ptr<SumParty>> parties;
    double up = 0, down = 0;
    const auto host = make_host(plan, session, 1);
    std::map<ClientId, Bytes> replies;
    for (const ClientId id : session.cohort) {
      PartyInput input{id, codec.encode({at::full({50}, 0.1F)}, {.examples = 1}, id).value()};
      parties[id] = make_party(plan, session, std::move(input));
      replies[id] = parties[id]->advertise();
    }
    while (!host->done()) {
      for (const auto& [id, message] : replies) {
        up += static_cast<double>(message.size());
        ASSERT_TRUE(host->receive(id, message).ok());
      }
      replies.clear();
      const auto out = host->close();
      ASSERT_TRUE(out.ok());
      for (const auto& [id, message] : out.value()) {
        down += static_cast<double>(message->size());
        replies[id] = parties[id]->receive(*message).value();
      }
    }
    const SumCost cost = cost_of(plan, session.parameters);
    EXPECT_EQ(6 * cost.bytes_up, up) << name_of(protocol);
    EXPECT_EQ(6 * cost.bytes_down, down) << name_of(protocol);
    EXPECT_TRUE(codec.decode(host->sum(), 6).ok());
  }
}

TEST(Identity, StaysAndIsRecognised) {
  ClientState mine, theirs;
  const PublicIdentity me = public_identity_in(mine), other = public_identity_in(theirs);
  EXPECT_EQ(identity_in(mine)->open, me.key);
  EXPECT_NE(me.key, other.key);
  meet(mine, 1, {{1, me}, {2, other}});
  meet(mine, 1, {{1, me}, {2, other}, {3, other}});
  PublicIdentity changed = other;
  changed.key[0] ^= std::byte{1};
  EXPECT_THROW(meet(mine, 1, {{1, me}, {2, changed}}), DataError);
  EXPECT_THROW(meet(mine, 1, {{1, other}}), DataError);
  changed = other;
  changed.configuration[0] ^= std::byte{1};
  EXPECT_THROW(meet(mine, 1, {{1, me}, {2, changed}}), DataError);
}

}  // namespace
}  // namespace chorus::inline secure_mean
