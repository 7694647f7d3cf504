#include "algorithm/secure/common_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline secure {
namespace {

using testing::HasSubstr;

std::vector<float> draw_values(std::size_t size, std::uint64_t seed, double deviation = 0.3) {
  RandomStream stream({.seed = seed, .purpose = "values"});
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(deviation * stream.normal());
  return values;
}

TEST(CommonScale, TheSumIsTheWeightedMeanOfQuantisedInputs) {
  const ScaleSettings settings{.clip = 2, .bits = 16, .most_weight = 50, .clients = 20};
  for (const unsigned bits : {32U, 64U}) {
    const CommonScale scale(settings, bits, 300, 1);
    RingVector sum(bits, scale.length());
    std::vector<double> expected(300, 0);
    double weights = 0;
    for (std::uint64_t client = 0; client < 20; ++client) {
      const std::vector<float> values = draw_values(300, client);
      const std::uint64_t weight = 1 + client % 50;
      const auto encoded = scale.encode(values, weight, {.seed = 3, .purpose = "round", .client = client});
      ASSERT_TRUE(encoded.ok());
      sum.add(encoded.value());
      weights += static_cast<double>(weight);
      for (std::size_t i = 0; i < 300; ++i) expected[i] += static_cast<double>(weight) * static_cast<double>(values[i]);
    }
    const auto mean = scale.decode(sum, 20);
    ASSERT_TRUE(mean.ok());
    for (std::size_t i = 0; i < 300; ++i) EXPECT_NEAR(mean.value()[i], expected[i] / weights, 2 / 32767.0);
  }
}

TEST(CommonScale, RoundingIsUnbiased) {
  const CommonScale scale({.clip = 1, .bits = 3, .clients = 1}, 32, 20'000, 1);
  const auto encoded = scale.encode(std::vector<float>(20'000, 0.4F), 1, {.seed = 1, .purpose = "rounding"});
  const auto mean = scale.decode(encoded.value(), 1);
  double sum = 0;
  for (const float value : mean.value()) sum += static_cast<double>(value);
  EXPECT_NEAR(sum / 20'000, 0.4, 0.006);
}

TEST(CommonScale, LargeValuesAndNormsAreClipped) {
  const CommonScale cut({.clip = 0.5, .bits = 16, .clients = 1}, 32, 2, 1);
  const std::vector<float> large = {1e30F, -3};
  EXPECT_THAT(cut.decode(cut.encode(large, 1, {}).value(), 1).value(), testing::ElementsAre(0.5F, -0.5F));
  const CommonScale norm({.clip = 10, .norm = 1, .bits = 20, .clients = 1}, 32, 2, 1);
  const std::vector<float> vector = {30, 40};
  const std::vector<float> shrunk = norm.decode(norm.encode(vector, 1, {}).value(), 1).value();
  EXPECT_NEAR(shrunk[0], 0.6, 1e-4);
  EXPECT_NEAR(shrunk[1], 0.8, 1e-4);
}

// Refused before the sum starts.
TEST(CommonScale, ASumThatCouldOverflowIsRefused) {
  const auto refused = [](ScaleSettings settings, unsigned bits) {
    return message_of<ConfigError>([&] { CommonScale(settings, bits, 10, 1); });
  };
  // 15 bits and sign, 2^16 clients: 2^16 (2^15 - 1) < 2^31; one more client does not fit.
  EXPECT_EQ(refused({.bits = 16, .clients = 65536}, 32), kNothingThrown);
  EXPECT_THAT(refused({.bits = 16, .clients = 65540}, 32), HasSubstr("overflows a ring of 32 bits"));
  EXPECT_THAT(refused({.bits = 16, .most_weight = 100, .clients = 1000}, 32), HasSubstr("weights up to 100"));
  EXPECT_EQ(refused({.bits = 16, .most_weight = 100, .clients = 1000}, 64), kNothingThrown);
  // 20 bits and 5,000 clients need more than 32 bits.
  EXPECT_EQ(CommonScale::ring_bits_for({.bits = 20, .clients = 5000}), 64U);
  EXPECT_EQ(CommonScale::ring_bits_for({.bits = 16, .clients = 1000}), 32U);
  EXPECT_THAT(message_of<ConfigError>(
                  [] { CommonScale::ring_bits_for({.bits = 31, .most_weight = 1ULL << 40, .clients = 5000}); }),
              HasSubstr("more than 64 bits"));
}

TEST(CommonScale, ExtremesOfTheRingAreExact) {
  const ScaleSettings settings{.clip = 1, .bits = 16, .clients = 65536};
  const CommonScale scale(settings, 32, 2, 1);
  const std::vector<float> ends = {1, -1};
  const RingVector one = scale.encode(ends, 1, {}).value();
  RingVector sum(32, scale.length());
  for (int i = 0; i < 65536; ++i) sum.add(one);
  EXPECT_THAT(scale.decode(sum, 65536).value(), testing::ElementsAre(1, -1));
}

TEST(CommonScale, NotFiniteValuesAreRefused) {
  const CommonScale scale({.clients = 3}, 32, 3, 1);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    EXPECT_FALSE(scale.encode(std::vector<float>{0, bad, 0}, 1, {}).ok());
  }
  const float huge = 1e38F, tiny = std::numeric_limits<float>::denorm_min();
  const auto encoded = scale.encode(std::vector<float>{huge, tiny, -huge}, 1, {.seed = 1, .purpose = "x"});
  EXPECT_THAT(scale.decode(encoded.value(), 1).value(), testing::ElementsAre(1, testing::FloatNear(0, 1e-4F), -1));
}

TEST(CommonScale, LyingWeightsAreRefused) {
  const CommonScale scale({.most_weight = 500, .clients = 3}, 32, 1, 1);
  for (const std::uint64_t weight : {std::uint64_t{0}, std::uint64_t{501}, std::uint64_t{1} << 31, ~std::uint64_t{0}}) {
    EXPECT_FALSE(scale.encode(std::vector<float>{0}, weight, {}).ok());
  }
  RingVector sum(32, scale.length());  // total weight 0
  EXPECT_FALSE(scale.decode(sum, 1).ok());
}

// A damaged result is detected.
TEST(CommonScale, ADamagedSumIsDetected) {
  const CommonScale scale({.clients = 4}, 32, 50, 9);
  RingVector sum = scale.encode(draw_values(50, 1), 1, {}).value();
  EXPECT_TRUE(scale.decode(sum, 1).ok());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      sum.set(i, sum.at(i) ^ (std::uint64_t{1} << bit));
      EXPECT_FALSE(scale.decode(sum, 1).ok());
      sum.set(i, sum.at(i) ^ (std::uint64_t{1} << bit));
    }
  }
  RingVector masked = sum;
  masked.add_mask(random_key(), false);
  EXPECT_FALSE(scale.decode(masked, 1).ok());
}

}  // namespace
}  // namespace chorus::inline secure
