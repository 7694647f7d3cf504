#include "algorithm/noise/wide_gaussian.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "algorithm/noise/sampler_check_test.h"

namespace chorus::inline noise {
namespace {

using sampler_check::normal_below;

// Chi-square over 200 equally likely bins, variance, kurtosis and both tails; fails with probability below 1e-6 when
// the sampler is right. CHORUS_LONG_TESTS draws 1e7.
TEST(WideGaussian, IsAGaussian) {
  const std::size_t draws = static_cast<std::size_t>(sampler_check::draws());
  SecretStream stream;
  std::vector<std::int64_t> values(draws);
  wide_gaussian(stream, values);
  constexpr int kBins = 200;
  std::vector<double> counts(kBins, 0.0);
  double sum = 0, squares = 0, fourth = 0, far = 0, very_far = 0, odd = 0;
  for (const std::int64_t value : values) {
    const double z = static_cast<double>(value) / static_cast<double>(kWideDeviation);
    ++counts[static_cast<std::size_t>(std::clamp(normal_below(z) * kBins, 0.0, kBins - 1.0))];
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
    far += std::abs(z) > 3 ? 1 : 0;
    very_far += std::abs(z) > 4.5 ? 1 : 0;
    odd += value & 1 ? 1 : 0;
  }
  const auto n = static_cast<double>(draws);
  double chi = 0;
  for (const double count : counts) chi += (count - n / kBins) * (count - n / kBins) / (n / kBins);
  EXPECT_NEAR(chi, kBins - 1, 5 * std::sqrt(2.0 * kBins));
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(odd / n, 0.5, 2.5 / std::sqrt(n)) << "the finest bit is as random as the others";
  for (const auto& [count, z] : {std::pair(far, 3.0), std::pair(very_far, 4.5)}) {
    const double expected = n * 2 * normal_below(-z);
    EXPECT_NEAR(count, expected, 5 * std::sqrt(expected) + 1) << z;
  }
}

}  // namespace
}  // namespace chorus::inline noise
