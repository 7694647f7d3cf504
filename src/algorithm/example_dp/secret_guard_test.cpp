#include "algorithm/example_dp/secret_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "algorithm/noise/sampler_check_test.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline example_dp {
namespace {

namespace fs = std::filesystem;

class Guarded : public testing::Test {
 protected:
  ExampleGuardInput input(double noise, double epsilon) const {
    ExampleGuardInput result{.folder = folder_.path(), .work = {{1, 0.1, 10}, {2, 0.5, 20}}, .rounds = 3};
    result.config.noise = noise;
    result.config.epsilon = epsilon;
    result.config.copy = "none";
    return result;
  }
  TemporaryFolder folder_;
};

TEST_F(Guarded, ReportsTheClientThatSpentMostAndRemembersIt) {
  const ExampleGuardInput in = input(1.2, 0);
  double before = 0;
  {
    SecretGuard guard(in);
    EXPECT_THAT(guard.charge(in.work, 1), testing::ElementsAre("", ""));
    before = guard.epsilon();
    guard.charge(std::span(in.work).first(1), 2);
    EXPECT_DOUBLE_EQ(guard.epsilon(), before) << "client 1 has spent less than client 2, still";
  }
  SecretGuard again(in);
  const Releases alone{.mechanisms = {{.noise = 1.2, .sampling_rate = 0.5, .steps = 20}}, .delta = 1e-5};
  const PrivacyReport report = again.report();
  EXPECT_NEAR(report.epsilon, account(alone, AccountantKind::kPld).epsilon, 1e-2);
  EXPECT_LE(report.epsilon, before);
  EXPECT_EQ(report.charges, 3);
  EXPECT_THAT(report.statement, testing::HasSubstr("example level"));
}

TEST_F(Guarded, RefusesAClientBeforeItsBudgetIsExceeded) {
  SecretGuard guard(input(0, 4));
  EXPECT_GT(guard.noise(), 0.5);
  const ExampleWork worst{2, 0.5, 20};
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(guard.charge(std::span(&worst, 1), static_cast<std::uint64_t>(round)).front(), "") << round;
  }
  EXPECT_THAT(guard.charge(std::span(&worst, 1), 4).front(), testing::HasSubstr("budget"));
  EXPECT_LE(guard.report().epsilon, 4);
  EXPECT_GT(guard.report().epsilon, 3.9) << "no more noise than needed";
  EXPECT_THROW(SecretGuard(input(0, 0)), ConfigError);
}

TEST_F(Guarded, SamplesEveryExampleIndependently) {
  const SecretGuard guard(input(1, 0));
  std::vector<double> drawn(50, 0);
  double sizes = 0, squares = 0;
  constexpr int kRuns = 4000;
  for (int run = 0; run < kRuns; ++run) {
    const auto sample = guard.sample(50, 0.2);
    for (const std::uint32_t i : sample) ++drawn.at(i);
    sizes += static_cast<double>(sample.size());
    squares += static_cast<double>(sample.size() * sample.size());
  }
  for (const double count : drawn) EXPECT_NEAR(count, kRuns * 0.2, 5 * std::sqrt(kRuns * 0.16));
  const double mean = sizes / kRuns;
  EXPECT_NEAR(squares / kRuns - mean * mean, 8, 1.2) << "binomial";
  EXPECT_EQ(guard.sample(7, 1).size(), 7U);

  // 1e6 or 1e7 decisions: how many of 100 examples are drawn has a binomial distribution.
  sampler_check::expect_distribution(
      sampler_check::draws() / 100, [&] { return static_cast<std::int64_t>(guard.sample(100, 0.03).size()); },
      [](int k) {
        if (k < 0 || k > 100) return -1e9;
        return std::lgamma(101.0) - std::lgamma(k + 1.0) - std::lgamma(101.0 - k) + k * std::log(0.03) +
               (100 - k) * std::log(0.97);
      });
}

}  // namespace
}  // namespace chorus::inline example_dp
