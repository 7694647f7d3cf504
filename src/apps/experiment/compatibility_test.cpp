#include "apps/experiment/compatibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline experiment {
namespace {

/// An aggregation that reveals sums only, as secure ones will.
class HiddenSum : public Aggregation {
 public:
  Aggregated aggregate(AggregationInput) override { return {}; }
};
const Registration<Aggregations> kHiddenSum{
    "test_hidden_sum", "for tests", [] { return std::make_unique<HiddenSum>(); }, {.shows_updates = false}};

std::string mistake_in(const std::string& more) {
  const std::string yaml =
      "kind: experiment\ntask: text_classification\nmodel: {from: somewhere}\ndata: {train: [x.jsonl]}\n" + more;
  try {
    ConfigDocument::parse(yaml, "test.yaml").load<ExperimentConfig>();
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Compatibility, WhatCannotWorkIsRefusedWhenItIsRead) {
  using testing::HasSubstr;
  EXPECT_EQ(mistake_in(""), "");
  EXPECT_EQ(mistake_in("aggregation: test_hidden_sum\nalgorithm: fedprox"), "");
  for (const char* name : {"fednova", "signsgd", "fedbuff"}) {
    EXPECT_THAT(mistake_in(std::string("aggregation: test_hidden_sum\nalgorithm: ") + name),
                HasSubstr("looks at each client's update"));
  }
  EXPECT_THAT(mistake_in("aggregation: test_hidden_sum\nalgorithm: local"), HasSubstr("nothing to aggregate"));
  EXPECT_THAT(mistake_in("algorithm: scaffold"), HasSubstr("needs plain gradient steps"));
  EXPECT_EQ(mistake_in("algorithm: scaffold\ntrainer: {optimizer: sgd, clip: 0}"), "");
  EXPECT_THAT(mistake_in("algorithm: fedlora"), HasSubstr("set tuning to"));
  EXPECT_THAT(mistake_in("algorithm: fedbuff\nemulation: {over_selection: 2}"), HasSubstr("over_selection"));
}

}  // namespace
}  // namespace chorus::inline experiment
