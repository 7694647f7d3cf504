#include "algorithm/selection/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "algorithm/selection/device_coverage.h"
#include "algorithm/selection/fednlp_choice.h"
#include "algorithm/selection/selector.h"
#include "algorithm/selection/weighted.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline selection {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RandomStream sampling_stream(std::uint64_t round) {
  return RandomStream({.seed = 3, .purpose = "test", .round = round});
}

/// |observed / n - expected| within five standard deviations of a binomial.
template <typename Key>
void expect_shares(const std::map<Key, double>& counts, const std::map<Key, double>& expected, double n) {
  for (const auto& [key, p] : expected) {
    const double got = counts.contains(key) ? counts.at(key) : 0;
    EXPECT_NEAR(got, n * p, 5 * std::sqrt(n * p * (1 - p)) + 1e-9) << testing::PrintToString(key);
  }
}

TEST(Sampling, UniformSubsetsAndOrdersAreEquallyLikely) {
  std::map<std::vector<ClientId>, double> counts, expected;
  constexpr std::uint64_t kDraws = 12000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    RandomStream stream = sampling_stream(i);
    ++counts[sample_uniform({10, 20, 30, 40}, 2, stream)];
  }
  for (const ClientId a : {10U, 20U, 30U, 40U}) {
    for (const ClientId b : {10U, 20U, 30U, 40U}) {
      if (a != b) expected[{a, b}] = 1.0 / 12;
    }
  }
  EXPECT_EQ(counts.size(), 12U);
  expect_shares(counts, expected, kDraws);
  RandomStream stream = sampling_stream(0);
  EXPECT_THAT(sample_uniform({}, 0, stream), IsEmpty());
  EXPECT_THROW((void)sample_uniform({1}, 2, stream), InternalError);
}

TEST(Sampling, SuccessiveDrawsHaveTheirClosedForm) {
  // P(i then j) = w_i / W * w_j / (W - w_i).
  const std::vector<double> weights{1, 2, 5};
  std::map<std::vector<std::size_t>, double> counts, expected;
  constexpr std::uint64_t kDraws = 20000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    RandomStream stream = sampling_stream(i);
    ++counts[sample_successive(weights, 2, stream)];
  }
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      if (i != j) expected[{i, j}] = weights[i] / 8 * weights[j] / (8 - weights[i]);
    }
  }
  expect_shares(counts, expected, kDraws);
  RandomStream stream = sampling_stream(0);
  const std::vector<std::size_t> all = sample_successive(weights, 3, stream);
  EXPECT_EQ(std::set<std::size_t>(all.begin(), all.end()).size(), 3U);
  EXPECT_THROW((void)sample_successive(std::vector<double>{1, 0}, 1, stream), InternalError);
  EXPECT_THROW((void)sample_successive(weights, 4, stream), InternalError);
}

TEST(Sampling, WithReplacementDrawsAreIndependent) {
  const std::vector<double> weights{1, 3};
  std::map<std::vector<std::size_t>, double> counts;
  constexpr std::uint64_t kDraws = 16000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    RandomStream stream = sampling_stream(i);
    ++counts[sample_with_replacement(weights, 2, stream)];
  }
  expect_shares(counts, {{{0, 0}, 1.0 / 16}, {{0, 1}, 3.0 / 16}, {{1, 0}, 3.0 / 16}, {{1, 1}, 9.0 / 16}}, kDraws);
  RandomStream stream = sampling_stream(0);
  EXPECT_THROW((void)sample_with_replacement({}, 1, stream), InternalError);
  EXPECT_THROW((void)sample_with_replacement(std::vector<double>{-1, 2}, 1, stream), InternalError);
}

TEST(Sampling, InclusionOfTwoDrawsByHand) {
  const std::vector<double> weights{1, 2, 5};
  const std::vector<double> pi = inclusion_probabilities(weights, {.count = 2});
  for (std::size_t i = 0; i < 3; ++i) {
    double expected = weights[i] / 8;  // first
    for (std::size_t j = 0; j < 3; ++j) {
      if (j != i) expected += weights[j] / 8 * weights[i] / (8 - weights[j]);
    }
    EXPECT_NEAR(pi[i], expected, 1e-9);
  }
  const std::vector<double> twice = inclusion_probabilities(weights, {.count = 2, .replacement = true});
  EXPECT_NEAR(twice[2], 1 - 9.0 / 64, 1e-12);
  EXPECT_THAT(inclusion_probabilities(std::vector<double>{0, 1, 1}, {.count = 2}), ElementsAre(0, 1, 1));
}

TEST(SizeFunction, MatchesDupuyEtAl2022) {
  EXPECT_DOUBLE_EQ(apply(SizeFunction::kOne, 50), 1);
  EXPECT_DOUBLE_EQ(apply(SizeFunction::kLog, std::exp(2) - 1), 2);
  EXPECT_DOUBLE_EQ(apply(SizeFunction::kSqrt, 49), 7);
  EXPECT_DOUBLE_EQ(apply(SizeFunction::kLinear, 49), 49);
  EXPECT_DOUBLE_EQ(apply(SizeFunction::kInverseLog, std::exp(2) - 1), 0.5);
  EXPECT_THAT(weights_of(SizeFunction::kSqrt, std::vector<double>{4, 0, 9}), ElementsAre(2, 0, 3));
}

TEST(EligibleClients, HaveDataAndCanBeReached) {
  const std::vector<double> sizes{3, 0, 5, 7};
  const std::vector<std::uint8_t> reachable{1, 1, 0, 1};
  EXPECT_THAT(eligible_clients({.sizes = sizes}), ElementsAre(0, 2, 3));
  EXPECT_THAT(eligible_clients({.sizes = sizes, .reachable = reachable}), ElementsAre(0, 3));
  const std::vector<std::uint8_t> short_list{1};
  EXPECT_THROW((void)eligible_clients({.sizes = sizes, .reachable = short_list}), InternalError);
  for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
    const std::vector<double> wrong{1, bad};
    EXPECT_THROW((void)eligible_clients({.sizes = wrong}), InternalError);
  }
  EXPECT_THAT(message_of<ConfigError>([&] { check_count({.sizes = sizes, .count = 4}, 3, "clients with data"); }),
              HasSubstr("there are 3 clients with data (of 4 clients in total)"));
  EXPECT_THROW(check_count({.sizes = sizes, .count = 0}, 3, ""), ConfigError);
  check_count({.sizes = sizes, .count = 3}, 3, "");
}

TEST(NumpyPermutation, EqualsNumpys) {
  // numpy: np.random.seed(s); np.random.permutation(n)
  EXPECT_THAT(numpy_permutation(0, 5), ElementsAre(2, 0, 1, 3, 4));
  EXPECT_THAT(numpy_permutation(1, 10), ElementsAre(2, 9, 6, 4, 0, 3, 1, 7, 8, 5));
  EXPECT_THAT(numpy_permutation(7, 8), ElementsAre(2, 5, 0, 6, 3, 1, 4, 7));
  EXPECT_THAT(numpy_permutation(7, 0), IsEmpty());
  EXPECT_THAT(numpy_permutation(7, 1), ElementsAre(0));
}

TEST(Coverage, AResumedRunContinuesItsCounts) {
  const std::vector<double> sizes{5, 0, 1, 9, 2};
  DeviceCoverage whole(sizes, 2);
  const std::vector<std::vector<ClientId>> rounds{{3, 2}, {}, {3, 0}, {4}};
  for (const auto& cohort : rounds) whole.add(cohort);
  DeviceCoverage first(sizes, 2);
  first.add(rounds[0]);
  first.add(rounds[1]);
  DeviceCoverage resumed(sizes, 2);
  resumed.restore(first.times(), first.rounds());
  resumed.add(rounds[2]);
  resumed.add(rounds[3]);
  EXPECT_EQ(resumed.text(), whole.text());
  EXPECT_EQ(resumed.rounds(), 4U);
  EXPECT_EQ(resumed.distinct(), whole.distinct());
  EXPECT_EQ(resumed.selections(), whole.selections());
  EXPECT_THAT(resumed.times(), ElementsAre(1, 0, 1, 2, 1));
  DeviceCoverage other(std::vector<double>{1, 2}, 2);
  EXPECT_THAT(message_of<DataError>([&] { other.restore(first.times(), 2); }), HasSubstr("other clients"));
  EXPECT_THROW(resumed.restore(first.times(), 2), InternalError) << "it has begun already";
}

}  // namespace
}  // namespace chorus::inline selection
