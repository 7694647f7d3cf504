#include "algorithm/selection/separated.h"

#include <gtest/gtest.h>

#include <map>

namespace chorus::inline selection {
namespace {

TEST(Separated, NobodyTakesPartTwiceWithinTheSeparation) {
  const std::vector<double> sizes(200, 3.0);
  const SeparatedSelector selector(SeparatedConfig{.separation = 7});
  std::map<ClientId, std::uint64_t> last;
  std::map<ClientId, int> times;
  std::size_t drawn = 0;
  for (std::uint64_t round = 1; round <= 70; ++round) {
    const auto cohort = selector.select({.sizes = sizes, .count = 15, .seed = 4, .round = round});
    drawn += cohort.size();
    for (const ClientId client : cohort) {
      if (last.contains(client)) {
        EXPECT_GE(round - last[client], 7U);
      }
      last[client] = round;
      ++times[client];
    }
  }
  EXPECT_GT(drawn, 70U * 13);
  EXPECT_GT(last.size(), 190U) << "everybody has a turn";
  for (const auto& entry : times) EXPECT_LE(entry.second, 10);
}

}  // namespace
}  // namespace chorus::inline selection
