#include "algorithm/noise/integer_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

namespace chorus::inline noise {
namespace {

/// CHORUS_LONG_TESTS draws ten times as many.
int draws_of_a_test() { return std::getenv("CHORUS_LONG_TESTS") != nullptr ? 10'000'000 : 1'000'000; }

/// Draws, and compares with a probability function: chi-square over all values that are expected at least ten times
/// (the rest is one class), variance, and both tails. A correct sampler fails with probability below 1e-6.
template <typename Draw, typename LogWeight>
void expect_distribution(int draws, const Draw& draw, const LogWeight& log_weight) {
  constexpr int kReach = 4000;
  std::vector<double> p(2 * kReach + 1);
  double total = 0, variance = 0;
  for (int x = -kReach; x <= kReach; ++x) total += p[static_cast<std::size_t>(x + kReach)] = std::exp(log_weight(x));
  for (int x = -kReach; x <= kReach; ++x) {
    p[static_cast<std::size_t>(x + kReach)] /= total;
    variance += p[static_cast<std::size_t>(x + kReach)] * x * x;
  }
  std::map<std::int64_t, double> counts;
  double sum = 0, squares = 0, fourth = 0, above = 0, below = 0;
  const double far = 3 * std::sqrt(variance);
  for (int i = 0; i < draws; ++i) {
    const std::int64_t x = draw();
    ++counts[x];
    const auto value = static_cast<double>(x);
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
    above += value > far ? 1 : 0;
    below += value < -far ? 1 : 0;
  }
  double chi = 0, classes = 0, rest = draws, rest_expected = draws, tail = 0;
  for (int x = -kReach; x <= kReach; ++x) {
    const double expected = draws * p[static_cast<std::size_t>(x + kReach)];
    if (x > far) tail += p[static_cast<std::size_t>(x + kReach)];
    if (expected < 10) continue;
    const double got = counts.contains(x) ? counts[x] : 0;
    chi += (got - expected) * (got - expected) / expected;
    rest -= got;
    rest_expected -= expected;
    ++classes;
  }
  if (rest_expected > 5) chi += (rest - rest_expected) * (rest - rest_expected) / rest_expected;
  // A chi-square variable is nearly normal here; five deviations.
  EXPECT_NEAR(chi, classes, 5 * std::sqrt(2 * classes) + 10);
  const double n = draws, mean = sum / n, kurtosis = fourth / n;
  EXPECT_NEAR(mean, 0, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n, variance, 5 * std::sqrt((kurtosis - variance * variance) / n));
  EXPECT_NEAR(above, n * tail, 5 * std::sqrt(n * tail) + 1);
  EXPECT_NEAR(below, n * tail, 5 * std::sqrt(n * tail) + 1);
}

// RFC 8439's predecessor with a 64-bit nonce: the keystream of the all-zero key and nonce
// (draft-agl-tls-chacha20poly1305).
TEST(SecretStream, IsChaCha20) {
  SecretStream stream(SecretStream::Key{});
  EXPECT_EQ(stream.next_u64(), 0x903df1a0ade0b876ULL);
  EXPECT_EQ(stream.next_u64(), 0x28bd8653e56a5d40ULL);
}

TEST(SecretStream, NeverRepeats) {
  SecretStream first, second;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 5000; ++i) {
    seen.insert(first.next_u64());
    seen.insert(second.next_u64());
  }
  EXPECT_EQ(seen.size(), 10'000U);
}

TEST(SecretStream, BelowIsUniform) {
  SecretStream stream;
  std::map<std::uint64_t, int> counts;
  for (int i = 0; i < 700'000; ++i) ++counts[stream.below(std::uint64_t{7})];
  ASSERT_EQ(counts.size(), 7U);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 100'000, 5 * std::sqrt(100'000.0)) << value;
  const SecretStream::Wide wide = (SecretStream::Wide{3} << 70) + 1;
  double mean = 0;
  for (int i = 0; i < 100'000; ++i) {
    const SecretStream::Wide x = stream.below(wide);
    ASSERT_LT(x, wide);
    mean += static_cast<double>(x) / static_cast<double>(wide) / 100'000;
  }
  EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(1.0 / 12 / 100'000));
}

TEST(IntegerNoise, BernoulliExp) {
  SecretStream stream;
  for (const auto& [numerator, denominator] : {std::pair(1, 3), std::pair(1, 1), std::pair(7, 2), std::pair(0, 5)}) {
    constexpr int kDraws = 400'000;
    int yes = 0;
    for (int i = 0; i < kDraws; ++i) {
      yes += bernoulli_exp(stream, static_cast<unsigned>(numerator), static_cast<unsigned>(denominator)) ? 1 : 0;
    }
    const double p = std::exp(-static_cast<double>(numerator) / denominator);
    EXPECT_NEAR(yes, kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 1e-9) << numerator << "/" << denominator;
  }
}

TEST(IntegerNoise, DiscreteLaplace) {
  SecretStream stream;
  for (const std::uint64_t scale : {1, 10}) {
    expect_distribution(
        draws_of_a_test(), [&] { return discrete_laplace(stream, scale); },
        [&](int x) { return -std::abs(x) / static_cast<double>(scale); });
  }
}

TEST(IntegerNoise, DiscreteGaussian) {
  SecretStream stream;
  for (const std::uint64_t sigma : {1, 3, 40}) {
    const auto s = static_cast<double>(sigma);
    expect_distribution(
        draws_of_a_test(), [&] { return discrete_gaussian(stream, sigma); },
        [&](int x) { return -x * static_cast<double>(x) / (2 * s * s); });
  }
}

/// For deviations so large that the integers look continuous: chi-square over 40 quantiles, variance, tails.
template <typename Draw>
void expect_normal(int draws, double sigma, const Draw& draw) {
  std::vector<double> counts(40, 0);
  double squares = 0, above = 0, below = 0;
  for (int i = 0; i < draws; ++i) {
    const double z = static_cast<double>(draw()) / sigma;
    squares += z * z;
    above += z > 3 ? 1 : 0;
    below += z < -3 ? 1 : 0;
    ++counts[static_cast<std::size_t>(std::clamp(0.5 * std::erfc(-z / std::sqrt(2.0)) * 40, 0.0, 39.0))];
  }
  EXPECT_NEAR(squares / draws, 1, 5 * std::sqrt(2.0 / draws));
  const double tail = draws * 0.00134989803163;
  EXPECT_NEAR(above, tail, 5 * std::sqrt(tail));
  EXPECT_NEAR(below, tail, 5 * std::sqrt(tail));
  double chi = 0;
  for (const double count : counts) chi += std::pow(count - draws / 40.0, 2) / (draws / 40.0);
  EXPECT_NEAR(chi, 39, 5 * std::sqrt(2 * 39.0));
}

TEST(IntegerNoise, WideDiscreteGaussianIsNormal) {
  SecretStream stream;
  expect_normal(draws_of_a_test() / 4, 1 << 24, [&] { return discrete_gaussian(stream, 1 << 24); });
}

// The shares of noise of secure sums: probabilities must not drown in the rounding of huge numbers.
TEST(IntegerNoise, WideSkellamIsNormal) {
  SecretStream stream;
  for (const double sigma : {3e3, 2e5, 3e7}) {
    expect_normal(draws_of_a_test() / 4, sigma, [&] { return skellam(stream, sigma * sigma); });
  }
}

TEST(IntegerNoise, Skellam) {
  SecretStream stream;
  for (const double variance : {0.5, 6.0, 900.0}) {
    // ln(e^-v I_|k|(v)) by the integral (1/pi) int exp(v (cos t - 1)) cos(k t) dt
    std::map<int, double> known;
    const auto log_weight = [&](int k) {
      const auto found = known.find(std::abs(k));
      if (found != known.end()) return found->second;
      if (std::abs(k) > 12 * std::sqrt(variance) + 20) return -200.0;
      double sum = 0;
      constexpr int kPoints = 4000;
      for (int i = 0; i < kPoints; ++i) {
        const double t = M_PI * (i + 0.5) / kPoints;
        sum += std::exp(variance * (std::cos(t) - 1)) * std::cos(k * t) / kPoints;
      }
      return known[std::abs(k)] = std::log(std::max(sum, 1e-17));
    };
    expect_distribution(
        draws_of_a_test(), [&] { return skellam(stream, variance); }, log_weight);
  }
}

}  // namespace
}  // namespace chorus::inline noise
