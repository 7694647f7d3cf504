#include "algorithm/analytics/private_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "algorithm/privacy/accountant.h"
#include "core/base/error.h"

namespace chorus::inline analytics {
namespace {

TEST(PrivateCounts, FindsCommonWordsAndHidesThoseOfOneClient) {
  PrivateCounts counts({.epsilon = 2, .delta = 1e-6, .most = 20});
  for (int client = 0; client < 400; ++client) {
    counts.add({{"the", 6}, {"and", 3}, {"of", 2}, {"secret" + std::to_string(client), 8}});
  }
  const auto released = counts.release();
  ASSERT_EQ(released.size(), 3U) << "what only one client has is not released";
  EXPECT_EQ(released[0].first, "the");
  EXPECT_EQ(released[1].first, "and");
  const double norm = std::sqrt(36.0 + 9 + 4 + 64);
  EXPECT_NEAR(released[0].second, 400 * 6 / norm, 6 * counts.noise());
  EXPECT_THROW(counts.release(), InternalError);
}

TEST(PrivateCounts, NoiseAndThresholdFollowFromThePromise) {
  const PrivateCounts counts({.epsilon = 1, .delta = 1e-5, .most = 50});
  const Releases once{.mechanisms = {{.noise = counts.noise()}}, .delta = 0.5e-5};
  EXPECT_LE(account(once, AccountantKind::kPld).epsilon, 1 + 1e-9);
  // The chance that any of 50 own words, each of weight 1 at most, is above the threshold.
  const double each = 0.5 * std::erfc((counts.threshold() - 1) / counts.noise() / std::sqrt(2.0));
  EXPECT_LE(1 - std::pow(1 - each, 50), 0.5e-5 * (1 + 1e-6));
  EXPECT_THROW(PrivateCounts({.epsilon = 1, .delta = 0}), ConfigError);
}

}  // namespace
}  // namespace chorus::inline analytics
