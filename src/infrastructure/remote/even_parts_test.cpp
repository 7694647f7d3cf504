#include "infrastructure/remote/even_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chorus::inline remote {
namespace {

using testing::ElementsAre;

TEST(EvenParts, HaveAboutTheSameWork) {
  EXPECT_THAT(even_parts(std::vector<double>{4, 1, 1, 1, 1}, 2, 100), ElementsAre(1, 5));
  EXPECT_THAT(even_parts(std::vector<double>(10, 1.0), 3, 100), ElementsAre(3, 7, 10));
  EXPECT_THAT(even_parts(std::vector<double>{5}, 3, 8), ElementsAre(0, 1, 1));
  EXPECT_THAT(even_parts({}, 2, 8), ElementsAre(0, 0));
}

TEST(EvenParts, EndAtWholeBlocksWhereThatCostsLittle) {
  std::vector<double> work(34, 1.0);
  EXPECT_THAT(even_parts(work, 2, 8), ElementsAre(17, 34));  // 16 would be 1 of 17 off, more than a twentieth
  work.resize(42, 0.1);
  EXPECT_THAT(even_parts(work, 2, 8), ElementsAre(17, 42));
  EXPECT_THAT(even_parts(std::vector<double>(66, 1.0), 2, 8), ElementsAre(32, 66));
}

}  // namespace
}  // namespace chorus::inline remote
