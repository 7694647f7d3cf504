// Every robust rule, against numpy (tests/golden/make_robust.py), closed forms and attackers.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/rng.h"
#include "core/config/config.h"
#include "core/ports/aggregation.h"
#include "tests/row_federation.h"

namespace chorus::inline robust {
namespace {

using nlohmann::json;
using RowList = std::vector<std::vector<double>>;

struct RuleChoice {
  Choice<Aggregations> rule{"mean"};
  void describe(ConfigVisitor& visitor) { visitor.field("rule", rule, "of the test"); }
};

std::unique_ptr<Aggregation> rule_of(const std::string& yaml) {
  return ConfigDocument::parse("rule: " + yaml, "test").load<RuleChoice>().rule.make();
}

// Rules that bear two attackers of eleven, where they ask for a number with that setting.
const std::vector<std::string> kResistant = {"median",
                                             "{name: trimmed_mean, attackers: 2}",
                                             "{name: krum, attackers: 2}",
                                             "{name: krum, attackers: 2, keep: 5}",
                                             "{name: bulyan, attackers: 2}",
                                             "{name: spectral_filter, attackers: 2}",
                                             "geometric_median",
                                             "{name: median, mixing: 2}",
                                             "{name: trimmed_mean, attackers: 2, mixing: 2}",
                                             "{name: krum, attackers: 2, mixing: 2}",
                                             "{name: geometric_median, mixing: 2}"};
const std::vector<std::string> kAllRules = [] {
  std::vector<std::string> all = kResistant;
  all.insert(all.end(), {"norm_bound", "centred_clipping"});
  return all;
}();

Aggregated aggregate(Aggregation& rule, Federation& federation, std::size_t clients, std::int64_t size) {
  std::vector<Member> cohort;
  for (std::size_t c = 0; c < clients; ++c) cohort.push_back({static_cast<ClientId>(c), 1});
  AggregationInput input{.federation = federation, .cohort = cohort, .request = {}};
  input.size = size;
  return rule.aggregate(std::move(input));
}

std::vector<double> result_of(Aggregation& rule, const RowList& rows) {
  RowFederation federation(rows);
  const Aggregated aggregated =
      aggregate(rule, federation, rows.size(), static_cast<std::int64_t>(rows.front().size()));
  std::vector<double> values;
  for (const at::Tensor& mean : aggregated.means) {
    if (!mean.defined()) continue;
    EXPECT_EQ(mean.scalar_type(), at::kFloat);
    const at::Tensor wide = mean.to(at::kDouble);
    values.assign(wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel());
  }
  return values;
}

RowList honest_rows(std::size_t clients, std::size_t size, std::uint64_t seed = 3) {
  RandomStream stream({.seed = seed, .purpose = "robust test"});
  RowList rows(clients, std::vector<double>(size));
  for (auto& row : rows) {
    for (std::size_t i = 0; i < size; ++i) row[i] = static_cast<double>(i % 5) - 2 + 0.1 * stream.normal();
  }
  return rows;
}

TEST(RobustRules, EqualNumpy) {
  std::ifstream file(std::string(CHORUS_SOURCE_DIR) + "/tests/golden/robust.json");
  const json golden = json::parse(file);
  ASSERT_GT(golden["cases"].size(), 50U);
  for (const json& item : golden["cases"]) {
    const auto rule = rule_of(item["rule"].dump());
    std::vector<double> values = result_of(*rule, golden["inputs"][item["input"].get<std::string>()].get<RowList>());
    if (item.contains("second")) {
      values = result_of(*rule, golden["inputs"][item["second"].get<std::string>()].get<RowList>());
    }
    const auto expected = item["expected"].get<std::vector<double>>();
    double tolerance = item["rule"]["name"] == "geometric_median" ? 3e-5 : 1e-6;
    for (const double value : expected) tolerance = std::max(tolerance, 1e-7 * std::abs(value));  // of float32
    EXPECT_THAT(values, testing::Pointwise(testing::DoubleNear(tolerance), expected)) << item["input"] << item["rule"];
  }
}

TEST(RobustRules, EqualClosedForms) {
  const RowList rows = {{1, 0}, {2, 0}, {100, 6}};
  EXPECT_THAT(result_of(*rule_of("median"), rows), testing::ElementsAre(2, 0));
  EXPECT_THAT(result_of(*rule_of("{name: trimmed_mean, attackers: 1}"), rows), testing::ElementsAre(2, 0));
  EXPECT_THAT(result_of(*rule_of("{name: krum, attackers: 0}"), rows), testing::ElementsAre(1, 0));
  EXPECT_THAT(result_of(*rule_of("{name: bulyan, attackers: 0}"), rows),
              testing::ElementsAre(testing::DoubleNear(103.0 / 3, 1e-5), 2));
  EXPECT_THAT(result_of(*rule_of("{name: norm_bound, bound: 5}"), {{3, 4}, {30, 40}, {0, 0}}),
              testing::ElementsAre(2, testing::DoubleNear(8.0 / 3, 1e-6)));
  // Of four corners of a convex quadrilateral: where its diagonals cross.
  // Mixing: each of the first three is nearest to the other two, so that they are equal afterwards.
  EXPECT_THAT(result_of(*rule_of("{name: median, mixing: 1}"), {{0, 0}, {3, 0}, {0, 3}, {90, -90}}),
              testing::ElementsAre(1, 1));
  // Without it the median follows a majority in each element alone.
  EXPECT_THAT(result_of(*rule_of("median"), {{0, 0}, {3, 0}, {0, 3}}), testing::ElementsAre(0, 0));
  EXPECT_THAT(result_of(*rule_of("{name: median, mixing: 0}"), {{0, 0}, {3, 0}, {0, 3}}), testing::ElementsAre(0, 0));
  const std::vector<double> centre =
      result_of(*rule_of("{name: geometric_median, tolerance: 0}"), {{0, 0}, {4, 4}, {0, 2}, {2, 0}});
  EXPECT_NEAR(centre[0], 1, 1e-4);
  EXPECT_NEAR(centre[1], 1, 1e-4);
}

TEST(RobustRules, OrderOfArrivalAndClaimedExamplesChangeNothing) {
  const RowList rows = honest_rows(11, 3000);
  for (const std::string& name : kAllRules) {
    const std::vector<double> expected = result_of(*rule_of(name), rows);
    RowFederation federation(rows);
    federation.reversed = true;
    federation.examples[4] = 1e9;
    const auto rule = rule_of(name);
    const at::Tensor again = aggregate(*rule, federation, rows.size(), 3000).means[0].to(at::kDouble);
    EXPECT_EQ(std::vector<double>(again.data_ptr<double>(), again.data_ptr<double>() + 3000), expected) << name;
  }
}

// 4c, case 15.
TEST(RobustRules, Case15NotFiniteUpdatesFailTheirClientOnly) {
  RowList rows = honest_rows(12, 8);
  rows[2][5] = std::nan("");
  const RowList usable = [&] {
    RowList left = rows;
    left.erase(left.begin() + 2);
    return left;
  }();
  for (const std::string& name : kAllRules) {
    const auto rule = rule_of(name);
    RowFederation federation(rows);
    const Aggregated aggregated = aggregate(*rule, federation, rows.size(), 8);
    EXPECT_THAT(aggregated.clients[2].failure, testing::HasSubstr("not finite")) << name;
    EXPECT_EQ(federation.accepted, 11);
    const at::Tensor mean = aggregated.means[0].to(at::kDouble);
    EXPECT_EQ(std::vector<double>(mean.data_ptr<double>(), mean.data_ptr<double>() + 8),
              result_of(*rule_of(name), usable));
  }
}

/// Clients 0 to 10 ask; the trusted one may be among them or besides them.
struct TrustTrial {
  RowList rows;
  std::size_t trusted = 0;
  std::size_t asked = 0;

  Aggregated result() const {
    RowFederation federation(rows);
    const auto rule = rule_of("{name: fltrust, trusted: " + std::to_string(trusted) + "}");
    return aggregate(*rule, federation, asked, static_cast<std::int64_t>(rows.front().size()));
  }
  std::vector<double> mean() const {
    const at::Tensor mean = result().means[0].to(at::kDouble);
    return {mean.data_ptr<double>(), mean.data_ptr<double>() + mean.numel()};
  }
  std::string failure() const {
    const Aggregated aggregated = result();
    EXPECT_FALSE(aggregated.means.at(0).defined());
    EXPECT_EQ(aggregated.clients.size(), asked);
    return aggregated.clients.front().failure;
  }
};

// 4c, case 15.
TEST(FlTrust, Case15NotFiniteUpdatesFailTheirClientOnly) {
  RowList rows = honest_rows(6, 8);
  const std::vector<double> expected = TrustTrial{{rows[0], rows[1], rows[3], rows[4], rows[5]}, 0, 5}.mean();
  rows[2][5] = std::nan("");
  EXPECT_EQ((TrustTrial{rows, 0, 6}.mean()), expected);
  EXPECT_THAT((TrustTrial{rows, 0, 6}.result().clients[2].failure), testing::HasSubstr("not finite"));
  // Nothing else is left, or nothing to judge by.
  EXPECT_EQ((TrustTrial{{rows[0], rows[2]}, 0, 2}.failure()), "there is no update besides the trusted one");
  EXPECT_THAT((TrustTrial{{rows[2], rows[0]}, 0, 2}.failure()), testing::HasSubstr("not finite"));
  EXPECT_THAT((TrustTrial{{rows[0], rows[2]}, 1, 1}.failure()), testing::HasSubstr("the trusted client failed"));
}

// 4c, case 16: by length an attacker gains nothing, and by pointing away it is not counted.
TEST(FlTrust, Case16ScaledAndFlippedUpdatesDoNotMoveTheResult) {
  for (const double factor : {1000.0, -1000.0, -1.0, 1e38}) {
    RowList rows = honest_rows(11, 40);
    for (const std::size_t attacker : {1U, 6U, 7U, 8U, 9U, 10U}) {
      for (double& value : rows[attacker]) value = static_cast<float>(factor * value / 2);
    }
    const std::vector<double> result = TrustTrial{rows, 0, 11}.mean();
    for (std::size_t i = 0; i < 40; ++i) EXPECT_NEAR(result[i], static_cast<double>(i % 5) - 2, 0.35) << factor;
  }
}

// 4c, case 17: besides the trusted client there is nobody, nothing, or nothing that points its way.
TEST(FlTrust, Case17IdenticalClientsOneClientAndNoDirection) {
  const std::vector<double> row = {0.25, -1.5, 0, 3}, zero(4, 0), across = {1.5, 0.25, 0, 0};
  EXPECT_THAT((TrustTrial{RowList(5, row), 0, 5}.mean()), testing::Pointwise(testing::DoubleNear(1e-6), row));
  EXPECT_EQ((TrustTrial{{row}, 0, 1}.failure()), "there is no update besides the trusted one");
  const std::string away = "no update points the same way as the trusted one";
  EXPECT_EQ((TrustTrial{{zero, row, row}, 0, 3}.failure()), away);
  EXPECT_EQ((TrustTrial{{row, zero, zero}, 0, 3}.failure()), away);
  EXPECT_EQ((TrustTrial{{row, across, {-0.25, 1.5, 0, -3}}, 0, 3}.failure()), away);
  EXPECT_THAT((TrustTrial{{row, row, zero, across}, 0, 4}.mean()), testing::Pointwise(testing::DoubleNear(1e-6), row));
}

TEST(FlTrust, AsksTheTrustedClientBesidesTheCohort) {
  const RowList rows = honest_rows(6, 8);
  // Its update is judged by, and not averaged, whether it was drawn or not.
  EXPECT_EQ((TrustTrial{{rows[0], rows[1], rows[2], rows[5]}, 3, 3}.mean()),
            (TrustTrial{{rows[0], rows[1], rows[2], rows[5]}, 3, 4}.mean()));
  EXPECT_EQ((TrustTrial{rows, 5, 3}.result().clients.size()), 3U);
  EXPECT_EQ((TrustTrial{{rows[0], rows[1]}, 1, 1}.result().clients[0].failure), "");
}

// An algorithm that aggregates several tensors gets all of them or none.
TEST(FlTrust, ATensorThatNothingPointsTheWayOfStays) {
  RowFederation federation({{1, 2}, {1, 2}, {2, 4}});
  federation.second = {{1, 0}, {0, 1}, {-1, 0}};
  std::vector<Member> cohort{{0, 1}, {1, 1}, {2, 1}};
  AggregationInput input{.federation = federation, .cohort = cohort, .request = {}};
  input.size = 2;
  input.tensors = {{}, {.name = "second"}};
  const Aggregated both = rule_of("{name: fltrust, trusted: 0}")->aggregate(std::move(input));
  EXPECT_TRUE(both.means.at(0).allclose(at::tensor({1.0F, 2.0F})));
  EXPECT_TRUE(both.means.at(1).equal(at::zeros({2})));
}

// 4c, case 16: the result stays where honest updates are; the mean does not.
TEST(RobustRules, Case16ScaledAndFlippedUpdatesDoNotMoveTheResult) {
  const RowList honest = honest_rows(11, 40);
  for (const double factor : {1000.0, -1000.0, -1.0, 1e38}) {
    RowList rows = honest;
    for (const std::size_t attacker : {0U, 6U}) {
      for (double& value : rows[attacker]) value = static_cast<float>(factor * value / 2);
    }
    for (const std::string& name : kResistant) {
      const std::vector<double> result = result_of(*rule_of(name), rows);
      for (std::size_t i = 0; i < 40; ++i) {
        EXPECT_NEAR(result[i], static_cast<double>(i % 5) - 2, 0.35) << name << ", factor " << factor;
      }
    }
    if (std::abs(factor) > 1) {
      EXPECT_GT(std::abs(result_of(*rule_of("mean"), rows)[0]), 10);
    }
    double norm = 0;
    for (const double value : result_of(*rule_of("norm_bound"), rows)) norm += value * value;
    EXPECT_LT(std::sqrt(norm), 1.3 * std::sqrt(40 * 2.0));
    const std::vector<double> clipped = result_of(*rule_of("{name: centred_clipping, iterations: 20}"), rows);
    for (std::size_t i = 0; i < 40; ++i) EXPECT_NEAR(clipped[i], static_cast<double>(i % 5) - 2, 1.0) << factor;
  }
}

// 4c, case 17.
TEST(RobustRules, Case17IdenticalClientsOneClientAndTies) {
  const std::vector<double> row = {0.25, -1.5, 0, 3};
  for (const std::string& name : kAllRules) {
    for (int zero = 0; zero < 2; ++zero) {
      const std::vector<double> same = zero == 1 ? std::vector<double>(4, 0) : row;
      EXPECT_THAT(result_of(*rule_of(name), RowList(11, same)), testing::Pointwise(testing::DoubleNear(1e-6), same))
          << name;
    }
  }
  for (const char* name :
       {"median", "{name: trimmed_mean, attackers: 0}", "geometric_median", "norm_bound", "centred_clipping"}) {
    EXPECT_THAT(result_of(*rule_of(name), {row}), testing::Pointwise(testing::DoubleNear(1e-6), row)) << name;
  }
  // Weiszfeld's point is one of the rows.
  EXPECT_THAT(result_of(*rule_of("geometric_median"), {{0, 0}, {0, 0}, {0, 0}, {1, 0}, {0, 1}}),
              testing::Each(testing::DoubleNear(0, 1e-5)));
  // Two pairs at the same distance: the first one wins.
  EXPECT_THAT(result_of(*rule_of("{name: krum, attackers: 0}"), {{1, 0}, {-1, 0}, {-1, 0}, {1, 0}}),
              testing::ElementsAre(1, 0));
}

TEST(RobustRules, TooFewUpdatesLeaveTheModel) {
  RowFederation pair(honest_rows(2, 4));
  const auto mixing = rule_of("{name: median, mixing: 1}");
  EXPECT_EQ(aggregate(*mixing, pair, 2, 4).clients[0].failure, "2 updates could be used, but the aggregation needs 3");
  const auto rule = rule_of("{name: krum, attackers: 2}");
  RowFederation federation(honest_rows(6, 4));
  const Aggregated aggregated = aggregate(*rule, federation, 6, 4);
  EXPECT_FALSE(aggregated.means.at(0).defined());
  for (const ClientReport& report : aggregated.clients) {
    EXPECT_EQ(report.failure, "6 updates could be used, but the aggregation needs 7");
    EXPECT_EQ(report.examples, 0);
  }
}

// Otherwise the round would be counted without an update.
TEST(RobustRules, TooFewUpdatesOfOtherProcessesRepeatTheRound) {
  const auto rule = rule_of("{name: krum, attackers: 2}");
  std::vector<std::vector<double>> rows = honest_rows(7, 4);
  rows[3][0] = std::nan("");
  RowFederation federation(rows);
  EXPECT_FALSE(aggregate(*rule, federation, 7, 4).means.at(0).defined());
  federation.real = true;
  EXPECT_THROW(aggregate(*rule, federation, 7, 4), TooFewReplies);
  EXPECT_FALSE(aggregate(*rule, federation, 6, 4).means.at(0).defined()) << "a draw that another attempt repeats";
}

TEST(RobustRules, CentredClippingGoesOnFromItsCheckpoint) {
  const auto first = rule_of("{name: centred_clipping, radius: 0.5}");
  const auto second = rule_of("{name: centred_clipping, radius: 0.5}");
  result_of(*first, honest_rows(5, 4, 1));
  second->restore(first->state());
  const std::vector<double> expected = result_of(*first, honest_rows(5, 4, 2));
  EXPECT_EQ(result_of(*second, honest_rows(5, 4, 2)), expected);
  EXPECT_NE(result_of(*rule_of("{name: centred_clipping, radius: 0.5}"), honest_rows(5, 4, 2)), expected);
  // A version of the model of another size starts at 0.
  EXPECT_EQ(result_of(*second, honest_rows(5, 3)).size(), 3U);
}

}  // namespace
}  // namespace chorus::inline robust
