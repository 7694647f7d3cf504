#include "algorithm/noise/integer_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "algorithm/noise/sampler_check_test.h"

namespace chorus::inline noise {
namespace {

using namespace sampler_check;  // NOLINT(google-build-using-namespace)

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

TEST(SecretStream, IsUniform) {
  SecretStream stream;
  std::vector<double> counts(7, 0.0);
  for (int i = 0; i < draws(); ++i) ++counts.at(stream.below(std::uint64_t{7}));
  expect_counts(counts, std::vector<double>(7, draws() / 7.0));
  expect_quantiles(
      draws(), [&] { return stream.uniform(); }, [](double x) { return x; });
  const SecretStream::Wide wide = (SecretStream::Wide{3} << 70) + 1;
  expect_quantiles(
      draws(), [&] { return static_cast<double>(stream.below(wide)) / static_cast<double>(wide); },
      [](double x) { return x; });
}

TEST(IntegerNoise, BernoulliExp) {
  SecretStream stream;
  for (const auto& [numerator, denominator] :
       {std::pair(1U, 3U), std::pair(1U, 1U), std::pair(7U, 2U), std::pair(0U, 5U)}) {
    expect_probability(
        draws(), [&, n = numerator, d = denominator] { return bernoulli_exp(stream, n, d); },
        std::exp(-static_cast<double>(numerator) / denominator));
  }
}

TEST(IntegerNoise, DiscreteLaplace) {
  SecretStream stream;
  for (const std::uint64_t scale : {1, 10}) {
    expect_distribution(
        draws(), [&] { return discrete_laplace(stream, scale); },
        [&](int x) { return -std::abs(x) / static_cast<double>(scale); });
  }
}

TEST(IntegerNoise, DiscreteGaussian) {
  SecretStream stream;
  for (const std::uint64_t sigma : {1, 3, 40}) {
    const auto s = static_cast<double>(sigma);
    expect_distribution(
        draws(), [&] { return discrete_gaussian(stream, sigma); },
        [&](int x) { return -x * static_cast<double>(x) / (2 * s * s); });
  }
}

TEST(IntegerNoise, WideDiscreteGaussianIsNormal) {
  SecretStream stream;
  expect_quantiles(
      draws(), [&] { return discrete_gaussian(stream, 1 << 24); },
      [](double x) { return normal_below(x / (1 << 24)); });
}

TEST(IntegerNoise, WideDiscreteLaplaceIsLaplace) {
  SecretStream stream;
  expect_quantiles(
      draws(), [&] { return discrete_laplace(stream, 1 << 24); },
      [](double x) {
        const double half = std::exp(-std::abs(x) / (1 << 24)) / 2;
        return x < 0 ? half : 1 - half;
      });
}

// The shares of noise of secure sums: probabilities must not drown in the rounding of huge numbers. A uniform part
// fills the gaps between integers, which 1e7 draws would see.
TEST(IntegerNoise, WideSkellamIsNormal) {
  SecretStream stream;
  for (const double sigma : {3e3, 2e5, 3e7}) {
    expect_quantiles(
        draws(), [&] { return static_cast<double>(skellam(stream, sigma * sigma)) + stream.uniform() - 0.5; },
        [&](double x) { return normal_below(x / sigma); });
  }
}

TEST(IntegerNoise, Poisson) {
  SecretStream stream;
  for (const double mean : {0.1, 4.0, 300.0}) {
    expect_distribution(
        draws(), [&] { return poisson(stream, mean); },
        [&](int k) { return k < 0 ? -1e9 : k * std::log(mean) - std::lgamma(k + 1.0); });
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
        draws(), [&] { return skellam(stream, variance); }, log_weight);
  }
}

}  // namespace
}  // namespace chorus::inline noise
