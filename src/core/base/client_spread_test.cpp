#include "core/base/client_spread.h"

#include <gtest/gtest.h>

#include <cmath>

namespace chorus::inline base {
namespace {

TEST(ClientSpread, EveryClientCountsOnceAndTheWorstTenthIsTheWorst) {
  std::vector<OwnScore> scores;
  for (ClientId k = 0; k < 20; ++k) {
    scores.push_back({k, false, 1.0 + k, {{"global", 0.01 * k}, {"own", 0.01 * k + (k < 15 ? 0.1 : -0.02)}}});
  }
  scores.push_back({20, true, 5, {{"own", 0.7}}});
  scores.push_back({21, false, 5, {}});  // no test examples
  const std::vector<ClientSpread> spreads = spreads_of(scores, true);
  ASSERT_EQ(spreads.size(), 3U);
  EXPECT_EQ(spreads[0].model, "global");
  EXPECT_EQ(spreads[0].clients, 20);
  EXPECT_NEAR(spreads[0].mean, 0.095, 1e-12);
  EXPECT_NEAR(spreads[0].deviation, 0.01 * std::sqrt((20.0 * 20 - 1) / 12), 1e-12);  // of 0 .. 19
  EXPECT_NEAR(spreads[0].worst_tenth, 0.005, 1e-12);
  EXPECT_NEAR(spreads[0].best_tenth, 0.185, 1e-12);
  EXPECT_NEAR(spreads[0].jain, 190.0 * 190 / (20 * 2470), 1e-12);
  EXPECT_FALSE(spreads[0].gain.has_value());
  EXPECT_NEAR(*spreads[1].gain, (15 * 0.1 - 5 * 0.02) / 20, 1e-12);
  EXPECT_NEAR(*spreads[1].gaining, 0.75, 1e-12);
  EXPECT_TRUE(spreads[2].newcomers);
  EXPECT_EQ(spreads[2].clients, 1);
  EXPECT_FALSE(spreads[2].gain.has_value());
  // For a loss, the largest are the worst, and less is a gain.
  const std::vector<ClientSpread> losses = spreads_of(scores, false);
  EXPECT_NEAR(losses[0].worst_tenth, 0.185, 1e-12);
  EXPECT_NEAR(*losses[1].gain, -*spreads[1].gain, 1e-12);
}

}  // namespace
}  // namespace chorus::inline base
