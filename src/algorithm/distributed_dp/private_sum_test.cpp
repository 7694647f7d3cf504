#include "algorithm/distributed_dp/private_sum.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/row_federation.h"
#include "tests/support.h"

namespace chorus::inline distributed_dp {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSize = 40;

class PrivateSumTest : public testing::Test {
 protected:
  static PrivateSumConfig config() {
    PrivateSumConfig config;
    config.mode = SecureMeanConfig::Mode::kCost;
    config.copy = "none";
    config.noise = 1;
    config.delta = 1e-3;
    return config;
  }
  std::unique_ptr<PrivateSum> prepared(const PrivateSumConfig& config, std::int64_t rounds = 5) {
    auto sum = std::make_unique<PrivateSum>(config);
    sum->prepare({.folder = folder_.path(), .clients = 10, .clients_per_round = 10, .rounds = rounds, .size = kSize});
    return sum;
  }
  static Aggregated round_of(PrivateSum& sum, std::uint64_t round, std::size_t clients = 10) {
    RowFederation federation(std::vector<std::vector<double>>(clients, std::vector<double>(kSize, 0.1)));
    std::vector<Member> cohort;
    for (std::size_t i = 0; i < clients; ++i) cohort.push_back({static_cast<ClientId>(i)});
    AggregationInput input{
        .federation = federation, .cohort = cohort, .request = {.procedure = "train", .round = round}};
    input.size = kSize;
    input.weighting = Weighting::kEqual;
    return sum.aggregate(std::move(input));
  }

  TemporaryFolder folder_;
};

TEST_F(PrivateSumTest, ChargesEveryClientBeforeItIsAskedAndStatesWhatIsProtected) {
  const auto sum = prepared(config());
  Aggregated result = round_of(*sum, 1);
  ASSERT_TRUE(result.means[0].defined());
  const double first = result.numbers.at("epsilon");
  EXPECT_GT(first, 1);
  result = round_of(*sum, 2);
  EXPECT_GT(result.numbers.at("epsilon"), first);
  EXPECT_TRUE(std::isnan(result.clients[0].loss));  // losses are not sent
  const PrivacyReport report = *sum->privacy();
  EXPECT_EQ(report.charges, 20);
  // 8 of 10 stay, and 1 of them colludes.
  EXPECT_THAT(report.statement, HasSubstr("noise of 7 honest clients"));
  EXPECT_THAT(report.statement, HasSubstr("fewer than 8 clients"));
  EXPECT_THAT(report.statement, HasSubstr("user level"));
}

TEST_F(PrivateSumTest, AClientWithASpentBudgetTakesNoMorePart) {
  PrivateSumConfig limited = config();
  limited.participations = 1;
  const auto sum = prepared(limited);
  EXPECT_FALSE(sum->exhausted());
  round_of(*sum, 1);
  EXPECT_TRUE(sum->exhausted());
  const Aggregated none = round_of(*sum, 2);
  EXPECT_FALSE(none.means[0].defined());
  EXPECT_THAT(none.clients[3].failure, HasSubstr("budget is spent"));
  EXPECT_EQ(sum->privacy()->charges, 10);
}

TEST_F(PrivateSumTest, CalibratesToTheBudgetAndCountsChargesOfACrashedProcess) {
  for (const NoiseKind kind : {NoiseKind::kSkellam, NoiseKind::kDiscreteGaussian}) {
    PrivateSumConfig wanted = config();
    wanted.mechanism = kind;
    wanted.noise = 0;
    wanted.epsilon = 4;
    auto sum = prepared(wanted);
    for (std::uint64_t round = 1; round <= 2; ++round) round_of(*sum, round);
    const double spent = sum->privacy()->epsilon;
    sum.reset();
    sum = prepared(wanted);
    EXPECT_NEAR(sum->privacy()->epsilon, spent, 1e-9);
    for (std::uint64_t round = 3; round <= 5; ++round) round_of(*sum, round);
    EXPECT_LE(sum->privacy()->epsilon, 4);
    EXPECT_GT(sum->privacy()->epsilon, 3.98);
    EXPECT_TRUE(sum->exhausted());
    sum.reset();
    std::filesystem::remove(folder_ / "privacy.ledger");
  }
}

TEST_F(PrivateSumTest, TooManyDropoutsAbandonTheRoundAndItStaysCharged) {
  PrivateSumConfig losing = config();
  losing.vanish = 0.9;
  const auto sum = prepared(losing);
  const Aggregated result = round_of(*sum, 1);
  EXPECT_FALSE(result.means[0].defined());
  EXPECT_EQ(sum->privacy()->charges, 10);
}

TEST_F(PrivateSumTest, RefusesWhatHasNoNoiseLeft) {
  PrivateSumConfig few = config();
  few.corrupt = 0.5;
  few.dropout = 0.5;
  EXPECT_THAT(PrivateSum(few).refusal(10, Weighting::kEqual), HasSubstr("nobody's noise"));
  EXPECT_THAT(PrivateSum(config()).refusal(10, Weighting::kExamples), HasSubstr("weighting: equal"));
  EXPECT_EQ(PrivateSum(config()).refusal(10, Weighting::kEqual), "");
}

}  // namespace
}  // namespace chorus::inline distributed_dp
