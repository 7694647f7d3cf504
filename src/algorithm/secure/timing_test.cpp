// SECURITY.md 4b: how long an operation takes does not depend on secrets. As in dudect (Reparaz et al. 2017), Welch's
// t-test compares the times for one fixed secret with those for random ones, drawn in random order; t grows with the
// root of the number of measurements where there is a difference. Only with CHORUS_LONG_TESTS, on a quiet machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "algorithm/secure/shamir.h"
#include "core/base/rng.h"

namespace chorus::inline secure {
namespace {

constexpr std::size_t kMeasurements = 1'000'000;
constexpr double kLargest = 10;  // |t|; dudect calls 10 a definite leak
constexpr double kKept = 0.9;    // share of the measurements; the slowest were interrupted

/// t of Welch's test between two classes of measurements.
double welch(const std::vector<double>& times, const std::vector<bool>& fixed) {
  std::vector<double> sorted = times;
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(kKept * static_cast<double>(sorted.size()));
  std::nth_element(sorted.begin(), last, sorted.end());
  double count[2] = {}, mean[2] = {}, squares[2] = {};
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] > *last) continue;
    const std::size_t c = fixed[i] ? 1 : 0;
    const double off = times[i] - mean[c];
    mean[c] += off / ++count[c];
    squares[c] += off * (times[i] - mean[c]);
  }
  const double variance = squares[0] / (count[0] - 1) / count[0] + squares[1] / (count[1] - 1) / count[1];
  return (mean[0] - mean[1]) / std::sqrt(variance);
}

/// Times `operation(input)` for inputs made by `make(fixed)`: each has memory of its own, so that caches treat both
/// classes alike.
template <typename Make, typename Operation>
double difference(std::size_t measurements, Make make, Operation operation) {
  constexpr std::size_t kBatch = 1000;
  RandomStream order({.seed = 31, .purpose = "timing"});
  std::vector<double> times;
  std::vector<bool> fixed;
  while (times.size() < measurements) {
    std::vector<decltype(make(true))> inputs;
    for (std::size_t i = 0; i < kBatch; ++i) {
      fixed.push_back(order.uniform() < 0.5);
      inputs.push_back(make(fixed.back()));
    }
    for (auto& input : inputs) {
      const auto begin = std::chrono::steady_clock::now();
      operation(input);
      times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  return welch(times, fixed);
}

class Timing : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CHORUS_LONG_TESTS") == nullptr) GTEST_SKIP() << "set CHORUS_LONG_TESTS (make test-long)";
  }
  static volatile bool result;  // so that nothing is optimised away
};
volatile bool Timing::result = false;

Bytes random_bytes(std::size_t size) {
  Bytes bytes(size);
  fill_random(bytes);
  return bytes;
}

// The test itself: it must see what memcmp gives away.
TEST_F(Timing, SeesAComparisonThatStopsEarly) {
  const Bytes secret = random_bytes(4096);
  const double t = difference(
      20'000, [&](bool fixed) { return fixed ? secret : random_bytes(secret.size()); },
      [&](const Bytes& guess) { result = std::memcmp(guess.data(), secret.data(), secret.size()) == 0; });
  EXPECT_GT(std::abs(t), kLargest);
}

TEST_F(Timing, ComparisonsDoNotDependOnWhereSecretsDiffer) {
  for (const std::size_t size : {std::size_t{16}, std::size_t{32}, std::size_t{4096}}) {
    const Bytes secret = random_bytes(size);
    const double t = difference(
        kMeasurements, [&](bool fixed) { return fixed ? secret : random_bytes(size); },
        [&](const Bytes& guess) { result = equal_secrets(guess, secret); });
    EXPECT_LT(std::abs(t), kLargest) << size;
  }
}

TEST_F(Timing, WrongTagsTakeAsLongWhereverTheyDiffer) {
  const Key key = random_key();
  const Bytes sealed = seal(key, {}, random_bytes(200));
  const double t = difference(
      kMeasurements,
      [&](bool fixed) {  // the tag is at the end: its last byte is wrong, or all of it
        Bytes wrong = sealed;
        if (fixed) {
          wrong.back() ^= std::byte{1};
        } else {
          fill_random(std::span(wrong).last(kSealOverhead));
        }
        return wrong;
      },
      [&](const Bytes& wrong) { result = unseal(key, {}, wrong).has_value(); });
  EXPECT_LT(std::abs(t), kLargest);
}

const std::vector<std::uint32_t> kPoints = {1, 2, 3, 5, 8, 13, 21, 34};
constexpr std::size_t kThreshold = 5;

/// The largest elements of the field, 2^61 - 2 each: all carries and reductions happen.
Key largest_secret() {
  Key secret;
  const std::uint64_t element = (std::uint64_t{1} << 61U) - 2;
  for (std::size_t i = 0; i < 4; ++i) std::memcpy(secret.data() + 8 * i, &element, sizeof element);
  return secret;
}

TEST_F(Timing, SharingDoesNotDependOnTheSecret) {
  for (const bool zero : {true, false}) {
    const double t = difference(
        kMeasurements / 4, [&](bool fixed) { return fixed ? (zero ? Key() : largest_secret()) : random_seed(); },
        [&](const Key& secret) { result = split_secret(secret, kThreshold, kPoints).size() > 3; });
    EXPECT_LT(std::abs(t), kLargest) << zero;
  }
}

TEST_F(Timing, ReconstructionDoesNotDependOnTheSecret) {
  SecretJoiner joiner;
  for (const bool zero : {true, false}) {
    const double t = difference(
        kMeasurements / 4,
        [&](bool fixed) {  // shares of 0 and of the largest secret are fixed, too
          std::vector<Share> shares(kThreshold);
          if (!fixed) return split_secret(random_seed(), kThreshold, kPoints);
          if (!zero) {
            for (Share& share : shares) share = largest_secret();
          }
          return shares;
        },
        [&](const std::vector<Share>& shares) {
          std::array<PlacedShare, kThreshold> placed;
          for (std::size_t i = 0; i < kThreshold; ++i) placed[i] = {kPoints[i], &shares[i]};
          result = joiner.join(placed, kThreshold).has_value();
        });
    EXPECT_LT(std::abs(t), kLargest) << zero;
  }
}

}  // namespace
}  // namespace chorus::inline secure
