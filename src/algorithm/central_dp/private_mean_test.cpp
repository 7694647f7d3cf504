#include "algorithm/central_dp/private_mean.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "algorithm/central_dp/clipped_sum.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "tests/support.h"

namespace chorus::inline central_dp {
namespace {

constexpr std::int64_t kSize = 6;

/// Clients that reply with given updates; an undefined one fails.
class GivenUpdates : public Federation {
 public:
  explicit GivenUpdates(std::vector<at::Tensor> updates)
      : updates_(std::move(updates)), roster_(Roster::of_sizes(std::vector<double>(updates_.size(), 5.0))) {}

  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }
  Replies ask(std::span<const ClientId> cohort, Request) override {
    const auto next = std::make_shared<std::size_t>(0);
    const std::vector<ClientId> asked(cohort.begin(), cohort.end());
    return Replies([this, next, asked]() -> std::optional<Reply> {
      if (*next == asked.size()) return std::nullopt;
      const std::size_t slot = (*next)++;
      const at::Tensor& update = updates_[asked[slot]];
      Reply reply{asked[slot], slot, {}, update.defined() ? "" : "it is gone"};
      if (update.defined()) reply.body.tensors["update"] = update;
      reply.body.numbers = {{"examples", 5.0 + static_cast<double>(asked[slot])}, {"loss", 1.0}};
      return reply;
    });
  }

 private:
  std::vector<at::Tensor> updates_;
  Roster roster_;
};

at::Tensor random_update(RandomStream& stream, double norm) {
  at::Tensor x = at::empty({kSize});
  for (std::int64_t i = 0; i < kSize; ++i) x[i] = stream.normal();
  return x.mul_(norm / x.norm().item<double>());
}

class PrivateMeanTest : public testing::Test {
 protected:
  std::unique_ptr<PrivateMean> prepared(PrivateMeanConfig config, double clients = 100, double per_round = 10,
                                        const std::string& name = "run") {
    config.copy = "none";
    auto result = std::make_unique<PrivateMean>(config);
    std::filesystem::create_directories(folder_.path() / name);
    result->prepare(
        {.folder = folder_.path() / name, .clients = clients, .clients_per_round = per_round, .rounds = 20});
    return result;
  }
  static Aggregated round_of(PrivateMean& mean, std::vector<at::Tensor> updates) {
    std::vector<Member> cohort;
    for (std::size_t i = 0; i < updates.size(); ++i) cohort.push_back({static_cast<ClientId>(i)});
    GivenUpdates federation(std::move(updates));
    AggregationInput input{.federation = federation, .cohort = cohort, .request = {.procedure = "train", .round = 1}};
    input.size = kSize;
    input.weighting = Weighting::kEqual;
    return mean.aggregate(std::move(input));
  }

  TemporaryFolder folder_;
};

// Whatever one user sends, and whether or not it takes part, the sum moves by at most the clipping norm.
TEST(ClippedSum, OneUserMovesItByAtMostTheClip) {
  RandomStream stream({.seed = 3, .purpose = "test"});
  for (int run = 0; run < 200; ++run) {
    const double clip = std::exp(3 * stream.normal());
    // Too little noise to hide a violation.
    const ClippedSum::Bound bound{.clip = clip, .noise = 1e-3};
    ClippedSum with(kSize, at::kCPU, bound), without(kSize, at::kCPU, bound);
    const auto users = 1 + stream.below(8);
    for (std::uint64_t user = 0; user < users; ++user) {
      const at::Tensor update = random_update(stream, clip * std::exp(2 * stream.normal()));
      with.add(update);
      without.add(update);
    }
    with.add(random_update(stream, clip * std::pow(10.0, static_cast<double>(stream.below(30)) - 5)));
    const double moved = (with.release() - without.release()).norm().item<double>();
    EXPECT_LE(moved, clip * (1 + 8 * std::sqrt(2.0 * kSize) * 1e-3) + 1e-5 * clip * static_cast<double>(users)) << run;
  }
}

TEST(ClippedSum, SmallUpdatesAreUnchanged) {
  ClippedSum sum(kSize, at::kCPU, {.clip = 10, .noise = 1e-3});
  const at::Tensor x = at::arange(kSize).to(at::kFloat);
  EXPECT_NEAR(sum.add(x), x.norm().item<double>(), 1e-5);
  EXPECT_LT((sum.release() - x).abs().max().item<double>(), 0.1);
}

TEST(ClippedSum, NoiseIsGaussianAndNeverRepeats) {
  constexpr std::int64_t kMany = 200'000;
  std::vector<at::Tensor> noise;
  for (int i = 0; i < 2; ++i) noise.push_back(ClippedSum(kMany, at::kCPU, {.clip = 0.5, .noise = 3}).release());
  for (const at::Tensor& x : noise) {
    EXPECT_NEAR(x.mean().item<double>(), 0, 5 * 1.5 / std::sqrt(kMany));
    EXPECT_NEAR(x.square().mean().item<double>(), 2.25, 5 * 2.25 * std::sqrt(2.0 / kMany));
    const double tail = (x > 3).to(at::kFloat).mean().item<double>();  // two deviations
    EXPECT_NEAR(tail, 0.0227501, 5 * std::sqrt(0.02275 / kMany));
  }
  EXPECT_LT(std::abs((noise[0] * noise[1]).mean().item<double>()), 5 * 2.25 / std::sqrt(kMany));
  EXPECT_THROW(
      {
        ClippedSum twice(2, at::kCPU, {});
        twice.release();
        twice.release();
      },
      InternalError);
}

TEST_F(PrivateMeanTest, IsTheClippedSumOverTheExpectedCohort) {
  const auto mean = prepared({.noise = 1e-3, .clip = 1});
  const at::Tensor small = at::full({kSize}, 0.1), large = at::full({kSize}, 100.0);
  const Aggregated result = round_of(*mean, {small, at::Tensor(), large});
  const at::Tensor expected = (small + large / large.norm()) / 10;
  EXPECT_LT((result.means[0] - expected).abs().max().item<double>(), 1e-3);
  EXPECT_EQ(result.clients[1].failure, "it is gone");
}

// Everything that a round releases, in two rounds that differ in one user: the mean and the clipping norm that adapts.
// There is too little noise to hide a violation.
TEST_F(PrivateMeanTest, SwappingOneUserMovesEverythingReleasedByAtMostItsShare) {
  RandomStream stream({.seed = 9, .purpose = "test"});
  constexpr double kNoise = 1e-3, kExpected = 4, kRate = 0.2;
  const auto anybody = [&](double clip) {
    const std::uint64_t kind = stream.below(10);
    if (kind == 0) return at::Tensor();  // fails
    if (kind == 1) return at::full({kSize}, std::numeric_limits<float>::infinity());
    if (kind == 2) return at::full({kSize}, std::nanf(""));
    return random_update(stream, clip * std::pow(10.0, static_cast<double>(stream.below(36)) - 5));
  };
  for (int run = 0; run < 200; ++run) {
    const double clip = std::exp(2 * stream.normal());
    const PrivateMeanConfig config{
        .noise = kNoise, .clip = clip, .quantile = run % 2 * 0.5, .clip_rate = kRate, .count_noise = kNoise};
    std::vector<at::Tensor> users;
    for (std::uint64_t user = 0; user <= stream.below(6); ++user) users.push_back(anybody(clip));
    std::vector<Aggregated> results;
    std::vector<double> clips;
    for (int swap = 0; swap < 2; ++swap) {
      if (swap == 1) users[stream.below(users.size())] = anybody(clip);
      const auto mean = prepared(config, 100, kExpected, "swap" + std::to_string(2 * run + swap));
      results.push_back(round_of(*mean, users));
      clips.push_back(std::log(mean->state().at("clip").item<double>()));
    }
    const double moved = kExpected * (results[0].means[0] - results[1].means[0]).norm().item<double>();
    const double noise = 1.2 * kNoise * (std::sqrt(2.0 * kSize) + 8);
    EXPECT_LE(moved, clip * (2 + noise + 1e-5 * static_cast<double>(users.size()))) << run;
    EXPECT_LE(std::abs(clips[0] - clips[1]), kRate / kExpected * (1 + 12 * kNoise)) << run;
    EXPECT_EQ(results[0].numbers, results[1].numbers);
  }
}

// 4c, case 19.
TEST_F(PrivateMeanTest, Case19AnEmptyCohortStillAddsNoiseAndIsCharged) {
  const auto mean = prepared({.noise = 1, .clip = 1});
  EXPECT_TRUE(mean->answers_for_nobody());
  const Aggregated first = round_of(*mean, {}), second = round_of(*mean, {});
  EXPECT_GT(first.means[0].norm().item<double>(), 0);
  EXPECT_FALSE(at::equal(first.means[0], second.means[0]));
  EXPECT_EQ(mean->privacy()->charges, 2);
  EXPECT_GT(second.numbers.at("epsilon"), first.numbers.at("epsilon"));
}

TEST_F(PrivateMeanTest, ReportsWhatTheAccountantSays) {
  const auto mean = prepared({.noise = 2, .delta = 1e-6}, 50, 10);
  for (int i = 0; i < 3; ++i) round_of(*mean, {});
  const PrivacyReport report = *mean->privacy();
  const Releases three{.mechanisms = {{.noise = 2, .sampling_rate = 0.2, .steps = 3}}, .delta = 1e-6};
  EXPECT_NEAR(report.epsilon, account(three, AccountantKind::kPld).epsilon, 1e-4);
  EXPECT_THAT(report.statement, testing::HasSubstr("Poisson"));
}

TEST_F(PrivateMeanTest, StopsBeforeTheBudgetIsExceeded) {
  const auto mean = prepared({.noise = 1, .epsilon = 2, .delta = 1e-5}, 100, 10);
  int rounds = 0;
  while (!mean->exhausted() && rounds < 1000) {
    round_of(*mean, {});
    ++rounds;
  }
  const auto epsilon = [](int steps) {
    const Releases all{.mechanisms = {{.noise = 1, .sampling_rate = 0.1, .steps = steps}}, .delta = 1e-5};
    return account(all, AccountantKind::kPld).epsilon;
  };
  EXPECT_GT(rounds, 1);
  EXPECT_LE(epsilon(rounds), 2);
  EXPECT_GT(epsilon(rounds + 1), 2);
}

TEST_F(PrivateMeanTest, NoiseIsCalibratedToTheBudget) {
  const auto mean = prepared({.epsilon = 4, .delta = 1e-5}, 100, 10);
  const Releases all{.mechanisms = {{.noise = mean->privacy()->noise, .sampling_rate = 0.1, .steps = 20}},
                     .delta = 1e-5};
  EXPECT_LE(account(all, AccountantKind::kPld).epsilon, 4);
  EXPECT_GT(account(all, AccountantKind::kPld).epsilon, 3.98);
}

// A process dies after its charge. The next one draws different noise and both charges count.
TEST_F(PrivateMeanTest, ARepeatedRoundIsChargedAgainWithFreshNoise) {
  const PrivateMeanConfig config{.noise = 1};
  at::Tensor before;
  {
    const auto mean = prepared(config);
    before = round_of(*mean, {}).means[0];
  }
  const auto again = prepared(config);
  EXPECT_FALSE(at::equal(before, round_of(*again, {}).means[0]));
  EXPECT_EQ(again->privacy()->charges, 2);
}

TEST_F(PrivateMeanTest, TheClipFollowsAQuantile) {
  RandomStream stream({.seed = 5, .purpose = "test"});
  const PrivateMeanConfig config{.noise = 1, .clip = 0.01, .quantile = 0.5, .clip_rate = 0.6, .count_noise = 2};
  auto mean = prepared(config, 1000, 100);
  for (int round = 0; round < 40; ++round) {
    std::vector<at::Tensor> updates;
    for (int i = 1; i <= 100; ++i) updates.push_back(random_update(stream, i / 10.0));  // median 5
    round_of(*mean, updates);
  }
  const double clip = mean->state().at("clip").item<double>();
  EXPECT_GT(clip, 3);
  EXPECT_LT(clip, 8);
  mean.reset();  // releases the ledger
  const auto restored = prepared(config, 1000, 100);
  restored->restore({{"clip", at::full({1}, clip, at::kDouble)}});
  EXPECT_EQ(restored->state().at("clip").item<double>(), clip);
  EXPECT_THROW(restored->restore({{"clip", at::full({1}, -1.0, at::kDouble)}}), DataError);
}

TEST_F(PrivateMeanTest, TooLittleNoiseForTheCountIsRefused) {
  EXPECT_THROW(prepared({.noise = 4, .quantile = 0.5, .count_noise = 1}), ConfigError);
}

}  // namespace
}  // namespace chorus::inline central_dp
