#include "core/base/rng.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace chorus::inline base {
namespace {

// Known answers of the Random123 distribution (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, MatchesTheKnownAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}), testing::ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(philox({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}),
              testing::ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
              testing::ElementsAre(0xd16cfe09u, 0x94fdcceb, 0x5001e420u, 0x24126ea1u));
}

TEST(RandomStream, SameKeySameNumbersOtherKeyOthers) {
  const StreamKey key{.seed = 7, .purpose = "shuffle", .round = 3, .client = 11, .step = 2};
  RandomStream a(key), b(key);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next_u64(), b.next_u64());
  for (const StreamKey& other :
       {StreamKey{8, "shuffle", 3, 11, 2}, StreamKey{7, "dropout", 3, 11, 2}, StreamKey{7, "shuffle", 4, 11, 2},
        StreamKey{7, "shuffle", 3, 12, 2}, StreamKey{7, "shuffle", 3, 11, 3}, StreamKey{7, "shuffle", 11, 3, 2}}) {
    EXPECT_NE(RandomStream(key).next_u64(), RandomStream(other).next_u64());
  }
}

TEST(RandomStream, ManyAtOnceAreTheSameAsOneByOne) {
  const StreamKey key{.seed = 7, .purpose = "fill"};
  RandomStream many(key), single(key);
  for (const std::size_t count : {1U, 2U, 63U, 64U, 65U, 0U, 1000U, 3U}) {
    std::vector<std::uint32_t> numbers(count);
    many.fill(numbers);
    for (const std::uint32_t number : numbers) ASSERT_EQ(number, single.next_u32());
    ASSERT_EQ(many.next_u32(), single.next_u32());
  }
}

TEST(RandomStream, BelowIsUniform) {
  RandomStream stream({.seed = 1, .purpose = "test"});
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[stream.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
}

TEST(RandomStream, NormalAndGammaHaveTheirMoments) {
  RandomStream stream({.seed = 1, .purpose = "test"});
  constexpr int kDraws = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
  for (const double shape : {0.3, 1.0, 4.5}) {
    double mean = 0;
    for (int i = 0; i < kDraws; ++i) mean += stream.gamma(shape) / kDraws;
    EXPECT_NEAR(mean, shape, 0.03 * shape + 0.005);
  }
}

TEST(RandomStream, DirichletIsAPointOfTheSimplexEvenForTinyAlpha) {
  RandomStream stream({.seed = 1, .purpose = "test"});
  for (const double alpha : {1e-6, 1e-3, 0.1, 1.0, 100.0}) {
    const std::vector<double> alphas{alpha, alpha, 0, alpha};
    const auto point = stream.dirichlet(alphas);
    EXPECT_NEAR(std::accumulate(point.begin(), point.end(), 0.0), 1, 1e-12);
    EXPECT_EQ(point[2], 0);
  }
  std::vector<double> mean(3);
  for (int i = 0; i < 20000; ++i) {
    const auto point = stream.dirichlet(std::vector<double>{1, 2, 5});
    for (std::size_t k = 0; k < 3; ++k) mean[k] += point[k] / 20000;
  }
  EXPECT_NEAR(mean[0], 1.0 / 8, 0.005);
  EXPECT_NEAR(mean[2], 5.0 / 8, 0.005);
}

TEST(RandomStream, ShuffleKeepsEveryElement) {
  RandomStream stream({.seed = 1, .purpose = "test"});
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), 0);
  auto shuffled = values;
  stream.shuffle(std::span(shuffled));
  EXPECT_NE(shuffled, values);
  EXPECT_THAT(shuffled, testing::UnorderedElementsAreArray(values));
}

}  // namespace
}  // namespace chorus::inline base
