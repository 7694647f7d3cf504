#include "application/trainer/training_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "application/trainer/frozen_ranges.h"
#include "application/trainer/losses.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TrainerConfig plan_config(const std::string& yaml) { return ConfigDocument::parse(yaml, "plan").load<TrainerConfig>(); }

TEST(TrainingPlan, ClientsLeaveWhenTheirBatchesAreRead) {
  const TrainingPlan plan{.batches = {5, 3, 3, 1}, .schedule = {5, 3, 3, 1, 1}};
  EXPECT_EQ(plan.readers(0), 4);
  EXPECT_EQ(plan.readers(1), 3);
  EXPECT_EQ(plan.readers(2), 3);
  EXPECT_EQ(plan.readers(3), 1);
  EXPECT_EQ(plan.readers(5), 0);
}

TEST(TrainingPlan, AStepSharesItsWeightAmongTheBatchesItReallyHas) {
  const TrainingPlan plan{.batches = {8, 6, 5}, .schedule = {2, 2, 2}};
  EXPECT_THAT(plan.shares(4, 3, 0), ElementsAre(0.25, 0.25, 0.25));
  // The second step has 4, 2 and 1 batches left.
  EXPECT_THAT(plan.shares(4, 3, 4), ElementsAre(0.25, 0.5, 1));
  EXPECT_THAT(plan.shares(1, 2, 5), ElementsAre(1, 1));
}

TEST(TrainingPlan, RatesFollowEachClientsOwnSchedule) {
  const TrainerConfig config = plan_config("{learning_rate: 0.1, schedule: {shape: linear, warmup: 0}}");
  const TrainingPlan plan{.batches = {10, 2}, .schedule = {10, 2}};
  const TrainMoment moment{.seed = 1, .round = 3, .rounds = 10};
  EXPECT_THAT(plan.rates(config, moment, 2, 0), ElementsAre(0.1, 0.1));
  EXPECT_THAT(plan.rates(config, moment, 2, 1), ElementsAre(DoubleNear(0.09, 1e-12), DoubleNear(0.05, 1e-12)));
}

// Rounds count from 1 in a run and from 0 in a schedule: the first round trains at the full rate, the last not at 0.
TEST(TrainingPlan, AScheduleOverTheRunUsesAllOfIt) {
  const TrainerConfig config = plan_config("{learning_rate: 1, schedule: {shape: linear, span: run, warmup: 0}}");
  const TrainingPlan plan{.batches = {4}, .schedule = {4}};
  const auto rate = [&](std::uint64_t round, std::int64_t step) {
    return plan.rates(config, {.seed = 1, .round = round, .rounds = 5}, 1, step)[0];
  };
  EXPECT_DOUBLE_EQ(rate(1, 0), 1);
  EXPECT_NEAR(rate(2, 0), 0.8, 1e-12);
  EXPECT_NEAR(rate(5, 3), 1.0 / 20, 1e-12);
  const TrainingPlan once{.batches = {1}, .schedule = {1}};
  EXPECT_DOUBLE_EQ(once.rates(config, {.seed = 1, .round = 1, .rounds = 1}, 1, 0)[0], 1);
}

TEST(TrainingPlan, ClientsThatRemainKeepTheirPlan) {
  TrainingPlan plan{.batches = {9, 7, 5, 3}, .schedule = {90, 70, 50, 30, 10}};  // the fifth has no rows
  plan.retain(std::vector<std::size_t>{1, 3, 4});
  EXPECT_THAT(plan.batches, ElementsAre(7, 3));
  EXPECT_THAT(plan.schedule, ElementsAre(70, 30, 10));
  plan.retain(std::vector<std::size_t>{2});
  EXPECT_TRUE(plan.batches.empty());
  EXPECT_THAT(plan.schedule, ElementsAre(10));
}

struct TwoClients {
  TwoClients() {
    layout.add("weights", {8}, Init::zeros());
    params = std::make_unique<Params>(layout, Params::Options{.clients = 2, .gradients = true});
    params->values().copy_(torch::arange(params->values().numel(), at::kFloat).reshape_as(params->values()));
    params->grads().fill_(1);
  }
  Layout layout;
  std::unique_ptr<Params> params;
};

TEST(FrozenRanges, StayThroughAStepAndHaveNoGradient) {
  const TwoClients world;
  const at::Tensor before = world.params->values().clone();
  const std::vector<FlatRange> ranges{{1, 3}, {5, 5}, {6, 7}};
  const FrozenRanges frozen(ranges, *world.params);
  for (const std::int64_t column : {0, 3, 4, 5}) {
    EXPECT_EQ(world.params->grads().select(1, column).sum().item<float>(), 2) << column;
  }
  for (const std::int64_t column : {1, 2, 6}) {
    EXPECT_EQ(world.params->grads().select(1, column).abs().sum().item<float>(), 0) << column;
  }
  world.params->values().mul_(0.5);  // as weight decay does, without asking for a gradient
  frozen.restore(*world.params);
  for (std::int64_t column = 0; column < 8; ++column) {
    const bool kept = column == 1 || column == 2 || column == 6;
    const at::Tensor expected = before.select(1, column) * (kept ? 1 : 0.5);
    EXPECT_TRUE(torch::equal(world.params->values().select(1, column), expected)) << column;
  }
}

TEST(FrozenRanges, BeyondTheVectorAreABug) {
  const TwoClients world;
  const std::int64_t size = world.params->values().size(1);
  for (const FlatRange bad : {FlatRange{-1, 2}, FlatRange{3, 2}, FlatRange{5, size + 1}}) {
    EXPECT_THROW(FrozenRanges(std::vector<FlatRange>{bad}, *world.params), InternalError) << bad.begin;
  }
}

TEST(MeanLosses, AreOverTheBatchesThatAClientRead) {
  const std::vector<at::Tensor> losses{torch::tensor({3.0, 4.0, 5.0}), torch::tensor({1.0, 2.0}), torch::tensor({2.0})};
  EXPECT_THAT(mean_losses(losses, 4), ElementsAre(2, 3, 5, 0));
  EXPECT_THAT(mean_losses({}, 2), ElementsAre(0, 0));
  EXPECT_TRUE(std::isnan(mean_losses({torch::tensor({1.0, std::nan("")})}, 2)[1]));
}

TEST(MeanLosses, ReadAnyTypeAsDoubles) {
  EXPECT_THAT(as_doubles(torch::tensor({1, 2}, at::kInt)), ElementsAre(1, 2));
  EXPECT_THAT(as_doubles(torch::tensor({{1.0, 2.0}, {3.0, 4.0}}).t()), ElementsAre(1, 3, 2, 4));
  EXPECT_TRUE(as_doubles(torch::zeros({0})).empty());
}

}  // namespace
}  // namespace chorus::inline trainer
