#include "apps/serving/sum_promise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/config.h"

namespace chorus::inline serving {
namespace {

using testing::HasSubstr;

struct OneChoice {
  Choice<Aggregations> aggregation{"mean"};
  void describe(ConfigVisitor& visitor) { visitor.field("aggregation", aggregation, "for tests"); }
};

std::optional<SumTerms> promise_of(const std::string& aggregation) {
  return promised_sum(ConfigDocument::parse("aggregation: " + aggregation, "test").load<OneChoice>().aggregation);
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
