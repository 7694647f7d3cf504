#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "algorithm/local_dp/label_response.h"
#include "algorithm/local_dp/local_noise.h"
#include "algorithm/local_dp/randomized_response.h"
#include "algorithm/noise/sampler_check_test.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "tests/support.h"

namespace chorus::inline local_dp {
namespace {

std::vector<float> ramp(std::size_t size, float scale) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = scale * (static_cast<float>(i % 7) - 3);
  return values;
}

struct Moments {
  double mean = 0, variance = 0, fourth = 0;
};

// Of the noise of a filter, in units of clip * noise.
Moments noise_of(const Filter& filter, std::span<const float> values, std::span<const float> clipped, double unit) {
  const Numbers noisy = filter.transform(values, {});
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double z = (static_cast<double>(noisy[i]) - clipped[i]) / unit;
    m.mean += z / n;
    m.variance += z * z / n;
    m.fourth += z * z * z * z / n;
  }
  return m;
}

TEST(LocalNoise, GaussianClipsAndAddsWhatItPromises) {
  const auto values = ramp(200'000, 0.1F);
  double norm = 0;
  for (const float v : values) norm += static_cast<double>(v) * v;
  norm = std::sqrt(norm);
  std::vector<float> clipped = values;
  for (float& v : clipped) v = static_cast<float>(v * 0.5 / norm);
  const Moments m = noise_of(LocalGaussian({.clip = 0.5, .noise = 3}), values, clipped, 1.5);
  EXPECT_NEAR(m.mean, 0, 5 / std::sqrt(200'000.0));
  EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2 / 200'000.0));
  EXPECT_NEAR(m.fourth, 3, 5 * std::sqrt(96 / 200'000.0));
}

TEST(LocalNoise, LaplaceClipsAndAddsWhatItPromises) {
  const auto values = ramp(100'000, 0.1F);
  double norm = 0;
  for (const float v : values) norm += std::abs(v);
  std::vector<float> clipped = values;
  for (float& v : clipped) v = static_cast<float>(v * 2 / norm);
  const Moments m = noise_of(LocalLaplace({.clip = 2, .noise = 0.5}), values, clipped, 1);
  EXPECT_NEAR(m.variance, 2, 5 * std::sqrt(20 / 100'000.0));
  EXPECT_NEAR(m.fourth, 24, 24 * 0.1);
}

// Whatever a client has, what it sends is within the bound but for the noise: swapping it moves that by twice as much.
TEST(LocalNoise, WhateverAClientHasItsNormIsBounded) {
  RandomStream stream({.seed = 8, .purpose = "test"});
  for (int run = 0; run < 200; ++run) {
    const double clip = std::exp(2 * stream.normal()), scale = std::pow(10.0, static_cast<double>(run % 40) - 5);
    std::vector<float> values(1 + stream.below(50));
    for (float& value : values) value = static_cast<float>(scale * stream.normal());
    if (run % 10 == 9) values[0] = run % 20 == 9 ? std::numeric_limits<float>::infinity() : std::nanf("");
    const auto n = static_cast<double>(values.size());
    double squares = 0, sum = 0;
    for (const float v : LocalGaussian({.clip = clip, .noise = 0.01}).transform(values, {})) {
      squares += static_cast<double>(v) * v;
    }
    EXPECT_LE(std::sqrt(squares), clip * (1 + 0.01 * (std::sqrt(n) + 8)) * (1 + 1e-6)) << run;
    for (const float v : LocalLaplace({.clip = clip, .noise = 0.01}).transform(values, {})) sum += std::abs(v);
    EXPECT_LE(sum, clip * (1 + 0.01 * (n + 8 * std::sqrt(n) + 20)) * (1 + 1e-6)) << run;
  }
}

TEST(LocalNoise, IsNeverTheSame) {
  const auto values = ramp(100, 0.1F);
  const LocalGaussian filter({});
  EXPECT_NE(filter.transform(values, {}), filter.transform(values, {}));
}

TEST(RandomizedResponse, KeepsItsPromiseAndIsUnbiased) {
  const RandomizedResponse response(1.5, 4);
  SecretStream stream;
  std::vector<double> answered(4, 0), truth{60'000, 30'000, 10'000, 0};
  for (std::size_t own = 0; own < 4; ++own) {
    for (int i = 0; i < static_cast<int>(truth[own]); ++i) ++answered[response.answer(stream, own)];
  }
  const auto estimate = response.estimate(answered);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(estimate[i], truth[i], 5 * response.deviation(100'000, truth[i] / 100'000)) << i;
  }
  // The worst ratio of two probabilities is e^epsilon, and not more.
  const double others = (1 - response.keeps()) / 3;
  EXPECT_LE(std::log(response.keeps() / others), 1.5);
  EXPECT_GT(std::log(response.keeps() / others), 1.5 - 1e-9);
  EXPECT_THROW(RandomizedResponse(0, 4), ConfigError);
}

TEST(RandomizedResponse, AnswersHaveTheirProbabilities) {
  SecretStream stream;
  for (const auto& [epsilon, answers] : {std::pair(0.5, 2), std::pair(3.0, 7)}) {
    const RandomizedResponse response(epsilon, static_cast<std::size_t>(answers));
    const int draws = sampler_check::draws();
    std::vector<double> counts(static_cast<std::size_t>(answers), 0.0);
    for (int i = 0; i < draws; ++i) ++counts.at(response.answer(stream, 1));
    const double all = std::exp(epsilon) + answers - 1;
    std::vector<double> expected(counts.size(), draws / all);
    expected[1] = draws * std::exp(epsilon) / all;
    sampler_check::expect_counts(counts, expected);
  }
}

auto about_from_above(double epsilon) { return testing::AllOf(testing::Ge(epsilon), testing::Le(epsilon + 1e-10)); }

TEST(LabelResponse, EveryGuardIsAReleaseOfEveryLabel) {
  const TemporaryFolder folder;
  const LabelGuardInput input{.epsilon = 2, .labels = 4, .folder = folder.path(), .clients = {3, 5}};
  {
    LabelResponse guard(input);
    int kept = 0;
    for (int i = 0; i < 40'000; ++i) kept += guard.answer(i % 4) == i % 4 ? 1 : 0;
    const double keeps = std::exp(2.0) / (std::exp(2.0) + 3);
    EXPECT_NEAR(kept, 40'000 * keeps, 5 * std::sqrt(40'000 * keeps * (1 - keeps)));
    EXPECT_THAT(guard.report().epsilon, about_from_above(2));
    EXPECT_EQ(guard.report().delta, 0);
  }
  // A run that goes on draws its labels again.
  const PrivacyReport report = LabelResponse(input).report();
  EXPECT_THAT(report.epsilon, about_from_above(4));
  EXPECT_EQ(report.charges, 4);
  EXPECT_THAT(report.statement, testing::HasSubstr("label level"));
}

}  // namespace
}  // namespace chorus::inline local_dp
