#include "core/base/spare_buffer.h"

#include <gtest/gtest.h>

namespace chorus::inline base {
namespace {

constexpr std::size_t kLarge = std::size_t{33} << 20U;

TEST(SpareBuffer, IsUsedAgain) {
  std::string first = take_spare_buffer(kLarge);
  first.assign(kLarge, 'x');
  const char* place = first.data();
  auto held = returning_buffer(std::move(first));
  EXPECT_EQ(held->data(), place);
  EXPECT_NE(take_spare_buffer(kLarge).data(), place);  // it is in use
  held.reset();
  const std::string second = take_spare_buffer(kLarge - 1000);
  EXPECT_EQ(second.data(), place);
  EXPECT_TRUE(second.empty());
}

TEST(SpareBuffer, KeepsNoneThatIsMuchLargerOrSmall) {
  returning_buffer(take_spare_buffer(2 * kLarge)).reset();
  EXPECT_LT(take_spare_buffer(kLarge).capacity(), 2 * kLarge);
  EXPECT_LT(take_spare_buffer(100).capacity(), kLarge);
  EXPECT_EQ(*returning_buffer("small"), "small");
}

}  // namespace
}  // namespace chorus::inline base
