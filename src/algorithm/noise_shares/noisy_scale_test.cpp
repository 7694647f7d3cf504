#include "algorithm/noise_shares/noisy_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "algorithm/privacy/rdp.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline noise_shares {
namespace {

using testing::HasSubstr;

double norm_of(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

std::vector<float> random_update(RandomStream& stream, std::size_t size, double norm) {
  std::vector<float> values(size);
  double squares = 0;
  for (float& value : values) {
    value = static_cast<float>(stream.normal());
    squares += static_cast<double>(value) * value;
  }
  for (float& value : values) value = static_cast<float>(value * norm / std::sqrt(squares));
  return values;
}

NoiseShare share_of(NoiseKind kind, std::size_t clients, std::size_t honest) {
  return {.kind = kind, .noise = 1, .clip = 0.5, .bits = 16, .clients = clients, .honest = honest};
}

TEST(Rotation, IsOrthogonalAndSpreadsASpike) {
  for (const std::size_t size : {1U, 2U, 3U, 64U, 1000U, 4095U}) {
    const Rotation rotation(size, {.seed = 5, .purpose = "test", .round = size});
    std::vector<double> values(size, 0.0);
    values[size / 3] = 2;
    values.back() += 1;
    const std::vector<double> before = values;
    rotation.forward(values);
    EXPECT_NEAR(norm_of(values), norm_of(before), 1e-12);
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    if (size >= 1000) {
      EXPECT_LT(largest, 6 * norm_of(before) / std::sqrt(static_cast<double>(rotation.block())));
    }
    rotation.backward(values);
    for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(values[i], before[i], 1e-12);
  }
}

// Whatever one client has, its integers are within the norm that is charged: so swapping it for nothing moves the sum
// by no more.
TEST(NoisyScale, OneClientMovesTheSumByAtMostTheSensitivity) {
  RandomStream stream({.seed = 4, .purpose = "test"});
  for (int run = 0; run < 200; ++run) {
    const std::size_t size = 1 + stream.below(3000);
    NoiseShare share = share_of(NoiseKind::kSkellam, 20, 10);
    share.clip = std::exp(2 * stream.normal());
    share.bits = 4 + static_cast<unsigned>(stream.below(15));
    share.noise = 10;
    const NoisyScale scale(share, {.ring_bits = 64, .capacity = 64, .values = size, .round = stream.below(100)});
    std::vector<float> update = random_update(stream, size, share.clip * std::exp(3 * stream.normal()));
    if (run % 3 == 0) update.assign(size, 0), update[stream.below(size)] = static_cast<float>(share.clip);
    double squares = 0, sum = 0;
    for (const std::int64_t q : scale.quantised(update)) {
      squares += static_cast<double>(q * q);
      sum += std::abs(static_cast<double>(q));
    }
    EXPECT_LE(std::sqrt(squares), scale.sensitivity()) << run;
    EXPECT_LE(sum, scale.mechanism().l1_sensitivity) << run;
    // Rounding adds little to what is protected, so noise is not wasted.
    if (share.bits >= 12) {
      EXPECT_LT(scale.sensitivity(), 1.001 * std::exp2(share.bits - 1) * std::sqrt(size) + 2);
    }
  }
}

// With all that dropouts and colluding clients take away, a sum has the noise that is accounted for; with more it has
// more.
TEST(NoisyScale, DropoutsNeverReduceTheNoiseBelowWhatIsAccountedFor) {
  constexpr std::size_t kSize = 20'000;
  for (const NoiseKind kind : {NoiseKind::kSkellam, NoiseKind::kDiscreteGaussian}) {
    const NoisyScale scale(share_of(kind, 10, 6), {.values = kSize, .seed = 8, .round = 2});
    const std::vector<float> nothing(kSize, 0.0F);
    RingVector sum(32, scale.length());
    for (std::size_t clients = 1; clients <= 10; ++clients) {
      sum.add(scale.encode(nothing).value());
      const std::vector<float> mean = scale.decode(sum, clients).value();
      double squares = 0;
      for (const float value : mean) squares += static_cast<double>(value) * value;
      const auto n = static_cast<double>(clients);
      const double deviation = n * std::sqrt(squares / kSize) / 0.5;  // of the sum / clip
      EXPECT_NEAR(deviation, std::sqrt(n / 6), 0.03 * std::sqrt(n / 6)) << name_of(kind) << " " << clients;
      if (clients >= 6) {
        EXPECT_GT(deviation, 0.97);
      }
    }
    const Mechanism charged = scale.mechanism();
    EXPECT_GE(charged.noise, 1);
    EXPECT_LT(charged.noise, 1.001);
  }
}

TEST(NoisyScale, TheMeanIsRightAndNoiseNeverRepeats) {
  constexpr std::size_t kSize = 500;
  RandomStream stream({.seed = 6, .purpose = "test"});
  const std::vector<float> update = random_update(stream, kSize, 0.4);
  for (const unsigned ring : {32U, 64U}) {
    NoiseShare share = share_of(NoiseKind::kSkellam, 4, 4);
    share.noise = 0.01;
    const NoisyScale scale(share, {.ring_bits = ring, .capacity = ring, .values = kSize, .seed = 1});
    RingVector sum(ring, scale.length());
    const RingVector first = scale.encode(update).value(), second = scale.encode(update).value();
    EXPECT_FALSE(first == second);
    for (const RingVector& input : {first, second, first}) sum.add(input);
    const std::vector<float> mean = scale.decode(sum, 3).value();
    for (std::size_t i = 0; i < kSize; ++i) EXPECT_NEAR(mean[i], update[i], 0.02);
    EXPECT_FALSE(scale.decode(sum, 2).ok());
    sum.set(7, sum.at(7) + 1);
    EXPECT_FALSE(scale.decode(sum, 3).ok());
  }
}

// Sums of discrete Gaussians: the exact Rényi divergence of two shares' sum, by brute force, is within the bound.
TEST(NoisyScale, DiscreteGaussianSumsAreWithinTheirBound) {
  for (const double sigma : {1.0, 1.5}) {
    const int reach = 40;
    std::vector<double> p(2 * reach + 1), sum(4 * reach + 1, 0.0);
    double total = 0;
    for (int x = -reach; x <= reach; ++x)
      total += p[static_cast<std::size_t>(x + reach)] = std::exp(-x * x / (2 * sigma * sigma));
    for (std::size_t i = 0; i < p.size(); ++i) {
      for (std::size_t j = 0; j < p.size(); ++j) sum[i + j] += p[i] * p[j] / (total * total);
    }
    double tau = 10 * std::exp(-M_PI * M_PI * sigma * sigma);  // k = 1 of theorem 1, two shares
    for (const double order : {1.5, 2.0, 8.0}) {
      double moment = 0;
      for (std::size_t i = 1; i < sum.size(); ++i) {
        if (sum[i] > 1e-280 && sum[i - 1] > 1e-280)
          moment += std::exp(order * std::log(sum[i]) + (1 - order) * std::log(sum[i - 1]));
      }
      const double divergence = std::log(moment) / (order - 1);
      const double e = std::min(std::sqrt(1 / (2 * sigma * sigma) + tau / 2), 1 / (std::sqrt(2) * sigma) + tau);
      EXPECT_LE(divergence, order * e * e / 2 * (1 + 1e-9)) << sigma << " " << order;
      EXPECT_GE(divergence, 0.9 * order / (4 * sigma * sigma)) << sigma << " " << order;
    }
  }
}

// The bound on Skellam noise against the exact divergence in one dimension.
TEST(NoisyScale, SkellamIsWithinItsBound) {
  for (const double variance : {4.0, 30.0}) {
    const auto weight = [&](int k) {
      double sum = 0;
      constexpr int kPoints = 2000;
      for (int i = 0; i < kPoints; ++i) {
        const double t = M_PI * (i + 0.5) / kPoints;
        sum += std::exp(variance * (std::cos(t) - 1)) * std::cos(k * t) / kPoints;
      }
      return sum;
    };
    const Mechanism m{.kind = MechanismKind::kSkellam, .noise = std::sqrt(variance)};
    for (const double order : {2.0, 2.5, 4.0}) {
      double moment = 0;
      for (int k = -40; k <= 40; ++k) {
        const double p = weight(k), q = weight(k - 1);
        if (p > 1e-13 && q > 1e-13) moment += std::pow(p, order) * std::pow(q, 1 - order);
      }
      const double divergence = std::log(moment) / (order - 1);
      EXPECT_LE(divergence, step_rdp(m, Adjacency::kAddRemove, order) * (1 + 1e-9)) << variance << " " << order;
      EXPECT_GE(divergence, 0.5 * order / (2 * variance)) << variance << " " << order;
    }
  }
}

TEST(NoisyScale, ImpossibleSettingsAreRefused) {
  const auto message = [](NoiseShare share, std::size_t values) {
    return message_of<ConfigError>([&] { NoisyScale scale(share, {.values = values}); });
  };
  NoiseShare share = share_of(NoiseKind::kSkellam, 10, 6);
  share.bits = 4;
  share.noise = 0.01;
  EXPECT_THAT(message(share, 100), HasSubstr("use more bits"));
  share = share_of(NoiseKind::kSkellam, 10, 0);
  EXPECT_THAT(message(share, 100), HasSubstr("counted on"));
  share = share_of(NoiseKind::kSkellam, 10, 6);
  share.bits = 24;
  EXPECT_THAT(message(share, 1 << 20), HasSubstr("fewer bits"));
  share.bits = 30;
  EXPECT_THAT(message(share, 5), HasSubstr("bits per element"));
  const NoisyScale scale(share_of(NoiseKind::kSkellam, 10, 6), {.values = 2});
  EXPECT_FALSE(scale.encode(std::vector<float>{0, std::nanf("")}).ok());
}

}  // namespace
}  // namespace chorus::inline noise_shares
