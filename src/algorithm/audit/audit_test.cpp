#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "algorithm/audit/exposure.h"
#include "algorithm/audit/membership.h"
#include "algorithm/audit/one_run_bound.h"
#include "algorithm/audit/token_recovery.h"
#include "core/base/rng.h"

namespace chorus::inline audit {
namespace {

TEST(Exposure, IsTheLogarithmOfTheRank) {
  const std::vector<double> references{1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(exposure(0.5, references).rank, 1U);
  EXPECT_DOUBLE_EQ(exposure(0.5, references).bits, 3);
  EXPECT_EQ(exposure(2.5, references).rank, 3U);
  EXPECT_EQ(exposure(2, references).rank, 3U) << "a tie is no sign of memory";
  EXPECT_NEAR(exposure(9, references).bits, 0, 1e-12);
}

// Closed forms: r of r right means p = q^r for pure privacy, and eps = ln(q / (1 - q)).
TEST(OneRunBound, MatchesClosedForms) {
  const double q = std::pow(0.05, 1.0 / 100);
  EXPECT_NEAR(epsilon_lower_bound({1000, 100, 100}, 0, 0.95), std::log(q / (1 - q)), 1e-4);
  EXPECT_EQ(epsilon_lower_bound({1000, 100, 50}, 0, 0.95), 0);
  EXPECT_NEAR(guess_probability({2, 2, 1}, 0, 0), 0.75, 1e-12);
  // Theorem 5.2 by hand: v = 1 of r = 2, eps = 0: tail 3/4, and P(v = 0) / 1 = 1/4, times 2 m delta = 0.04.
  EXPECT_NEAR(guess_probability({2, 2, 1}, 0, 0.01), 0.75 + 0.04 * 0.25, 1e-12);
  EXPECT_LT(epsilon_lower_bound({1000, 100, 100}, 1e-3, 0.95), epsilon_lower_bound({1000, 100, 100}, 0, 0.95));
}

TEST(OneRunBound, RandomizedResponseIsBoundedByItsEpsilonAndNotFarBelow) {
  // Scores are noisy answers with P(right) = e^2 / (1 + e^2): epsilon 2, exactly.
  const double keep = std::exp(2.0) / (1 + std::exp(2.0));
  int above = 0;
  double mean = 0;
  constexpr int kRuns = 100, kCanaries = 1000;
  for (int run = 0; run < kRuns; ++run) {
    RandomStream stream({.seed = 7, .purpose = "audit test", .round = static_cast<std::uint64_t>(run)});
    std::vector<double> scores;
    const auto included = std::make_unique<bool[]>(kCanaries);
    for (int i = 0; i < kCanaries; ++i) {
      included[static_cast<std::size_t>(i)] = stream.uniform() < 0.5;
      const bool answer = (stream.uniform() < keep) == included[static_cast<std::size_t>(i)];
      scores.push_back((answer ? 1 : 0) + 1e-6 * stream.uniform());
    }
    const double bound = one_run_bound(scores, {included.get(), kCanaries}, 0, 0.95).epsilon;
    above += bound > 2 ? 1 : 0;
    mean += bound / kRuns;
  }
  EXPECT_LE(above, 5);
  EXPECT_GT(mean, 1.5);
}

// Scores of a Gaussian mechanism: never above its epsilon (but for the confidence), above half of it on average, and
// above what (epsilon, delta) alone gives.
TEST(OneRunBound, GaussianNoiseIsBoundedByItsEpsilonAndReachesHalfOfIt) {
  constexpr double kEpsilon = 4.3772, kDelta = 1e-5;  // of noise 1 (docs/explanation/privacy.md)
  int above = 0;
  double mean = 0, plain = 0;
  constexpr int kRuns = 10, kCanaries = 2000;
  for (int run = 0; run < kRuns; ++run) {
    RandomStream stream({.seed = 8, .purpose = "audit test", .round = static_cast<std::uint64_t>(run)});
    std::vector<double> scores;
    const auto included = std::make_unique<bool[]>(kCanaries);
    for (std::size_t i = 0; i < kCanaries; ++i) {
      included[i] = stream.uniform() < 0.5;
      scores.push_back((included[i] ? 1 : 0) + stream.normal());
    }
    const double bound = gaussian_one_run_bound(scores, {included.get(), kCanaries}, kDelta, 0.95).epsilon;
    plain += one_run_bound(scores, {included.get(), kCanaries}, kDelta, 0.95).epsilon / kRuns;
    above += bound > kEpsilon ? 1 : 0;
    mean += bound / kRuns;
  }
  EXPECT_LE(above, 1);
  EXPECT_GT(mean, 0.5 * kEpsilon);
  EXPECT_GT(mean, plain);
}

// Three guesses of three canaries. With perfect privacy the best is a fair coin: P(all right) = 1/8.
TEST(OneRunBound, WithoutNoiseToHideInGuessesAreCoins) {
  EXPECT_TRUE(rules_out_gaussian({3, 3, 3}, 1e-6, 0.126));
  EXPECT_FALSE(rules_out_gaussian({3, 3, 3}, 1e-6, 0.124));
  EXPECT_FALSE(rules_out_gaussian({3, 3, 3}, 1, 0.126));
}

TEST(Membership, CountsWhatScoresTellApart) {
  const std::vector<double> in{4, 3, 2}, out{1, 0, -1, 2};
  const Membership result = membership(in, out);
  EXPECT_NEAR(result.auc, 11.5 / 12, 1e-12);
  EXPECT_NEAR(result.at_1_percent, 2.0 / 3, 1e-12);
  EXPECT_NEAR(result.advantage, 0.75, 1e-12);
  EXPECT_NEAR(membership(in, in).auc, 0.5, 1e-12);
}

TEST(Membership, LikelihoodRatioPrefersTheNearerShadow) {
  const std::vector<double> with{0.1, 0.12, 0.09}, without{1.0, 1.1, 0.9};
  EXPECT_GT(likelihood_ratio(0.1, with, without), 0);
  EXPECT_LT(likelihood_ratio(1.0, with, without), 0);
  EXPECT_EQ(likelihood_ratio(0.7, {}, without), -0.7) << "without shadow models, the loss decides";
}

TEST(Membership, LossesAreComparedWithWhatShadowRunsExpect) {
  // Each record has another level, and being planted lowers its loss by 1.
  const std::vector<std::vector<double>> with{{4.0, 4.2}, {}, {6.0}}, without{{5.0, 5.2}, {8.0}, {}};
  const std::vector<double> result = below_expectation(std::vector<double>{4.1, 8.0, 6.5}, with, without);
  EXPECT_NEAR(result[0], 0.5, 1e-12);
  EXPECT_NEAR(result[1], -0.5, 1e-12);
  EXPECT_NEAR(result[2], 0, 1e-12);
}

TEST(TokenRecovery, CountsTokensAndTheirOrder) {
  const std::vector<std::int64_t> text{5, 6, 7, 8}, found{5, 7, 6, 9};
  const TokenRecovery result = token_recovery(text, found);
  EXPECT_DOUBLE_EQ(result.recall, 0.75);
  EXPECT_DOUBLE_EQ(result.precision, 0.75);
  EXPECT_DOUBLE_EQ(result.rouge_l, 0.5);
  EXPECT_DOUBLE_EQ(token_recovery(text, text).rouge_l, 1);
  EXPECT_DOUBLE_EQ(token_recovery(text, {}).recall, 0);
}

}  // namespace
}  // namespace chorus::inline audit
