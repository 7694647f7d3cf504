#include "apps/serving/sum_promise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/config/config.h"
#include "tests/word_clients.h"

namespace chorus::inline serving {
namespace {

using testing::HasSubstr;

struct OneChoice {
  Choice<Aggregations> aggregation{"mean"};
  void describe(ConfigVisitor& visitor) { visitor.field("aggregation", aggregation, "for tests"); }
};

/// For 10 clients per round and 1000 elements, of a network with a word table.
std::optional<SumTerms> promise_of(const std::string& aggregation) {
  static const Layout kLayout = tests::word_layout();
  const AggregationSetting run{.folder = {}, .clients_per_round = 10, .rounds = 20, .size = 1000, .layout = &kLayout};
  return promised_sum(ConfigDocument::parse("aggregation: " + aggregation, "test").load<OneChoice>().aggregation, run);
}

/// The first request of a sum as an honest server of this promise writes it.
Request begin_of(double protocol, double least, double bits, double corrupt, double dropout, bool active) {
  Request request{.procedure = "secure/begin", .round = 1};
  request.body.texts["secure.procedure"] = "train";
  request.body.numbers = {{"secure.protocol", protocol}, {"secure.least", least},
                          {"secure.bits", bits},         {"secure.corrupt", corrupt},
                          {"secure.dropout", dropout},   {"secure.active", active ? 1 : 0}};
  return request;
}

TEST(SumPromise, IsWhatTheConfigurationSays) {
  EXPECT_FALSE(promise_of("mean"));
  EXPECT_FALSE(promise_of("median"));
  EXPECT_FALSE(promise_of("{name: secagg, mode: cost}")) << "a model of a sum hides nothing";
  const auto plus = promise_of("{name: secagg_plus, server: active, least_clients: 7, bits: 20, corrupt: 0.05}");
  ASSERT_TRUE(plus);
  EXPECT_EQ(plus->protocol, "secagg_plus");
  EXPECT_TRUE(plus->active);
  EXPECT_EQ(plus->least, 7);
  EXPECT_EQ(plus->bits, 20);
  EXPECT_EQ(plus->corrupt, 0.05);
  EXPECT_EQ(plus->dropout, 0.2);
  EXPECT_FALSE(promise_of("secagg")->corrupt);
  EXPECT_FALSE(promise_of("light_secagg")->active);
  EXPECT_EQ(promise_of("{name: private_sum, noise: 1, protocol: light_secagg}")->protocol, "light_secagg");
  const auto groups = promise_of("{name: secure_groups, groups: 5, sum: {name: secagg, server: active}}");
  ASSERT_TRUE(groups);
  EXPECT_EQ(groups->protocol, "secagg");
  EXPECT_TRUE(groups->active);
  EXPECT_EQ(groups->least, 3) << "of a group, not of all of them";
  EXPECT_EQ(promise_of("{name: secagg, rare_rows: 4}")->rare, 4);
  const auto noisy = promise_of("{name: private_sum, mechanism: discrete_gaussian, noise: 1.5, clip: 0.5}");
  ASSERT_TRUE(noisy && noisy->noise);
  EXPECT_EQ(noisy->least, 8) << "a fifth may vanish";
  EXPECT_EQ(noisy->noise->kind, "discrete_gaussian");
  EXPECT_EQ(noisy->noise->noise, 1.5);
  EXPECT_EQ(noisy->noise->clip, 0.5);
  EXPECT_EQ(noisy->noise->honest, 7) << "of 8 that stay one may collude";
  EXPECT_FALSE(plus->noise);
  // From a budget alone a client works the noise out itself: more for a smaller one, and for more rounds.
  const auto noise = [](const char* of) {
    return promise_of(std::string("{name: private_sum, ") + of + "}")->noise->noise;
  };
  EXPECT_GT(noise("epsilon: 8, participations: 4"), 0.3);
  EXPECT_GT(noise("epsilon: 4, participations: 4"), noise("epsilon: 8, participations: 4"));
  EXPECT_GT(noise("epsilon: 8"), noise("epsilon: 8, participations: 4"));
  EXPECT_EQ(noise("epsilon: 8, noise: 0.25"), 0.25);
}

// No word table: rows cannot be counted, and an honest server does not try.
TEST(SumPromise, RareRowsArePromisedWhereAWordTableTrains) {
  const Choice<Aggregations> rule =
      ConfigDocument::parse("aggregation: {name: secagg, rare_rows: 4}", "test").load<OneChoice>().aggregation;
  Layout matrix;
  matrix.begin_layer(0);
  matrix.add("matrix", {2, 2}, Init::zeros());
  EXPECT_EQ(promised_sum(rule, {.folder = {}, .layout = &matrix})->rare, 0);
  EXPECT_EQ(promised_sum(rule, {})->rare, 0) << "predictions";
}

TEST(SumPromise, WeakerSumsBreakIt) {
  const SumTerms promised = *promise_of("{name: secagg_plus, server: active, least_clients: 5}");
  const auto breach = [&](const std::function<void(Request&)>& change) {
    Request request = begin_of(1, 5, 16, 0.1, 0.2, true);
    change(request);
    return breach_of(promised, request);
  };
  const auto with = [&](const char* name, double value) {
    return breach([&](Request& request) { request.body.numbers[std::string("secure.") + name] = value; });
  };
  EXPECT_EQ(breach([](Request&) {}), "");
  EXPECT_EQ(with("least", 9), "");
  EXPECT_EQ(with("active", 0), "its job promises secure sums with server: active, and this one has semi_honest");
  EXPECT_EQ(with("protocol", 0), "its job promises secure sums with protocol: secagg_plus, and this one has secagg");
  EXPECT_THAT(with("protocol", 7), HasSubstr("protocol"));
  EXPECT_EQ(with("least", 4), "its job promises secure sums with least_clients: 5, and this one has 4");
  EXPECT_THAT(with("bits", 8), HasSubstr("bits: 16, and this one has 8"));
  EXPECT_THAT(with("corrupt", 0.01), HasSubstr("corrupt: 0.1, and this one has 0.01"));
  EXPECT_THAT(with("dropout", 0.5), HasSubstr("dropout: 0.2, and this one has 0.5"));
  // A second sum (rare rows) has terms of its own.
  EXPECT_THAT(breach([](Request& request) {
                request.procedure = "secure/values";
                request.body.numbers["secure.least"] = 2;
              }),
              HasSubstr("least_clients"));
  EXPECT_THAT(breach([](Request& request) { request.body.numbers.clear(); }),
              HasSubstr("protocol: secagg_plus, and this one has unknown"));
}

TEST(SumPromise, LessNoiseBreaksIt) {
  const SumTerms promised = *promise_of("{name: private_sum, noise: 1.5, clip: 0.5}");
  const auto breach = [&](const std::function<void(decltype(Message::numbers)&)>& change) {
    Request request = begin_of(1, 8, 16, 0.1, 0.2, false);
    auto& numbers = request.body.numbers;
    numbers.insert(
        {{"secure.noise_kind", 1}, {"secure.noise", 1.5}, {"secure.noise_clip", 0.5}, {"secure.noise_honest", 7}});
    change(numbers);
    return breach_of(promised, request);
  };
  const auto with = [&](const char* name, double value) {
    return breach([&](auto& numbers) { numbers[std::string("secure.") + name] = value; });
  };
  EXPECT_EQ(breach([](auto&) {}), "");
  EXPECT_EQ(with("noise", 2), "");
  EXPECT_EQ(with("noise_honest", 6), "") << "more for each";
  EXPECT_EQ(breach([](auto& numbers) { numbers.erase("secure.noise_kind"); }),
            "its job promises secure sums with noise of the clients (mechanism: skellam), and this one has none");
  EXPECT_EQ(with("noise_kind", 2),
            "its job promises secure sums with mechanism: skellam, and this one has discrete_gaussian");
  EXPECT_THAT(with("noise_kind", 9), HasSubstr("mechanism"));
  EXPECT_EQ(with("noise", 1.4), "its job promises secure sums with noise: 1.5, and this one has 1.4");
  EXPECT_NE(with("noise", std::nan("")), "");
  EXPECT_EQ(with("noise_clip", 0.4), "its job promises secure sums with clip: 0.5, and this one has 0.4");
  EXPECT_THAT(with("noise_honest", 8), HasSubstr("whose noise 7 clients suffice for, and this one divides it among 8"));
  EXPECT_EQ(with("least", 7), "its job promises secure sums with least_clients: 8, and this one has 7");
}

TEST(SumPromise, RowsOfFewerClientsBreakIt) {
  const SumTerms promised = *promise_of("{name: secagg_plus, rare_rows: 3}");
  for (const auto& [rare, kept] : {std::pair(5, true), {3, true}, {2, false}, {0, false}}) {
    Request request = begin_of(1, 3, 16, 0.1, 0.2, false);
    request.body.numbers["secure.rare"] = rare;
    EXPECT_EQ(breach_of(promised, request) == "", kept) << rare;
    request.procedure = "secure/values";
    EXPECT_EQ(breach_of(promised, request) == "", kept) << rare;
  }
}

TEST(SumPromise, WhatShowsSingleClientsBreaksIt) {
  const SumTerms promised = *promise_of("secagg");
  for (const char* shows : {"train", "evaluate", "loss", "distill/predict", "fedbuff/release", "fedsgd/gradient"}) {
    EXPECT_THAT(breach_of(promised, {.procedure = shows}), HasSubstr("would show what a single client has")) << shows;
  }
  for (const char* fits : {"secure/identify", "secure/next", "fedbuff/hold", "distill/learn"}) {
    EXPECT_EQ(breach_of(promised, {.procedure = fits}), "") << fits;
  }
}

}  // namespace
}  // namespace chorus::inline serving
