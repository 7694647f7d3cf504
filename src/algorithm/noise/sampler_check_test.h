#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

/// Statistical tests of samplers. A correct sampler fails one of them with a probability of about 1e-6.
namespace chorus::sampler_check {

/// CHORUS_LONG_TESTS draws ten times as many.
inline int draws() { return std::getenv("CHORUS_LONG_TESTS") != nullptr ? 10'000'000 : 1'000'000; }

/// P(N(0, 1) < z)
inline double normal_below(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

/// Chi-square of counts against what is expected: classes that are expected less than ten times are one.
inline void expect_counts(const std::vector<double>& counts, const std::vector<double>& expected) {
  double chi = 0, classes = 0, rest = 0, rest_expected = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (expected[i] < 10) {
      rest += counts[i];
      rest_expected += expected[i];
      continue;
    }
    chi += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
    ++classes;
  }
  if (rest_expected > 5) {
    chi += (rest - rest_expected) * (rest - rest_expected) / rest_expected;
    ++classes;
  }
  // A chi-square variable is nearly normal for many classes; five deviations, and more where there are few.
  const double freedom = std::max(classes - 1, 1.0);
  EXPECT_NEAR(chi, freedom, 5 * std::sqrt(2 * freedom) + 15);
}

/// Draws integers, and compares with a probability function, given by its logarithm up to a constant: chi-square over
/// all values, mean, variance, and both tails beyond three deviations.
template <typename Draw, typename LogWeight>
void expect_distribution(int draws, const Draw& draw, const LogWeight& log_weight) {
  constexpr int kReach = 4000;
  std::vector<double> p(2 * kReach + 1), counts(2 * kReach + 1, 0.0);
  double total = 0, mean = 0, variance = 0, fourth = 0;
  const auto at = [](std::int64_t x) {
    return static_cast<std::size_t>(std::clamp<std::int64_t>(x, -kReach, kReach) + kReach);
  };
  for (int x = -kReach; x <= kReach; ++x) total += p[at(x)] = std::exp(log_weight(x));
  for (int x = -kReach; x <= kReach; ++x) mean += (p[at(x)] /= total) * x;
  for (int x = -kReach; x <= kReach; ++x) {
    const double square = (x - mean) * (x - mean);
    variance += p[at(x)] * square;
    fourth += p[at(x)] * square * square;
  }
  const double far = 3 * std::sqrt(variance);
  double sum = 0, squares = 0, above = 0, below = 0, more = 0, less = 0;
  for (int i = 0; i < draws; ++i) {
    const std::int64_t x = draw();
    ++counts[at(x)];
    const double away = static_cast<double>(x) - mean;
    sum += away;
    squares += away * away;
    above += away > far ? 1 : 0;
    below += away < -far ? 1 : 0;
  }
  for (int x = -kReach; x <= kReach; ++x) {
    more += x - mean > far ? p[at(x)] : 0;
    less += x - mean < -far ? p[at(x)] : 0;
  }
  const auto n = static_cast<double>(draws);
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n, variance, 5 * std::sqrt((fourth - variance * variance) / n));
  EXPECT_NEAR(above, n * more, 5 * std::sqrt(n * more) + 1);
  EXPECT_NEAR(below, n * less, 5 * std::sqrt(n * less) + 1);
  for (double& x : p) x *= n;
  expect_counts(counts, p);
}

/// For integers so spread out that they look continuous, and for real numbers. `below(x)` is the probability of a value
/// below x: chi-square over 200 equally likely intervals, and 1e-3 of the mass on either side.
template <typename Draw, typename Below>
void expect_quantiles(int draws, const Draw& draw, const Below& below) {
  constexpr int kIntervals = 200;
  std::vector<double> counts(kIntervals, 0.0);
  double low = 0, high = 0;
  for (int i = 0; i < draws; ++i) {
    const double share = below(static_cast<double>(draw()));
    ++counts[static_cast<std::size_t>(std::clamp(share * kIntervals, 0.0, kIntervals - 1.0))];
    low += share < 1e-3 ? 1 : 0;
    high += share > 1 - 1e-3 ? 1 : 0;
  }
  const auto n = static_cast<double>(draws);
  expect_counts(counts, std::vector<double>(kIntervals, n / kIntervals));
  EXPECT_NEAR(low, n * 1e-3, 5 * std::sqrt(n * 1e-3));
  EXPECT_NEAR(high, n * 1e-3, 5 * std::sqrt(n * 1e-3));
}

/// A sampler that says yes with a probability.
template <typename Draw>
void expect_probability(int draws, const Draw& draw, double p) {
  double yes = 0;
  for (int i = 0; i < draws; ++i) yes += draw() ? 1 : 0;
  EXPECT_NEAR(yes, draws * p, 5 * std::sqrt(draws * p * (1 - p)) + 1e-9) << p;
}

}  // namespace chorus::sampler_check
