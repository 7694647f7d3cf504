#include "core/base/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chorus::inline base {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Activity, OrdersClientsWithDataFromLeastToMost) {
  EXPECT_THAT(by_activity(std::vector<double>{5, 0, 2, 9, 1}), ElementsAre(4, 2, 0, 3));
  // Ties are ordered by id, wherever they are.
  EXPECT_THAT(by_activity(std::vector<double>{3, 1, 3, 1, 3}), ElementsAre(1, 3, 0, 2, 4));
  EXPECT_THAT(by_activity(std::vector<double>{0.5, 0.25}), ElementsAre(1, 0));
  EXPECT_THAT(by_activity(std::vector<double>{0, 0}), IsEmpty());
  EXPECT_THAT(by_activity(std::vector<double>{}), IsEmpty());
}

TEST(Activity, GroupsCoverEveryClientOnceAndDifferByOneAtMost) {
  for (const std::size_t n : {0U, 1U, 7U, 10U, 11U, 99U, 1000U}) {
    for (const std::size_t groups : {1U, 2U, 3U, 10U}) {
      EXPECT_EQ(group_begin(n, 0, groups), 0U);
      EXPECT_EQ(group_begin(n, groups, groups), n);
      std::size_t smallest = n, largest = 0;
      for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t size = group_begin(n, g + 1, groups) - group_begin(n, g, groups);
        smallest = std::min(smallest, size);
        largest = std::max(largest, size);
      }
      EXPECT_LE(largest - smallest, 1U) << n << " in " << groups;
    }
  }
}

}  // namespace
}  // namespace chorus::inline base
