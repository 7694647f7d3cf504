#include "application/trainer/step_recorder.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "application/trainer/cohort_trainer.h"
#include "application/trainer/tiny_classifier_test.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

struct World : tiny::Classifier {
  PassInput input(const std::vector<std::vector<std::uint32_t>>& rows) const {
    std::vector<ClientRows> cohort;
    for (const auto& client : rows) cohort.push_back({encoded.get(), client, cohort.size()});
    return {task->collate(cohort), Dropout(), torch::ones({static_cast<std::int64_t>(rows.size())})};
  }
  at::Tensor loss(const Params& params, const PassInput& input) const {
    Dropout off;
    return task->loss(model->forward(params, input.batch.batch, off), input.batch);
  }
};

// A tensor of a batch that is not listed would be replayed with the values of an old batch.
TEST(VisitDeviceParts, ListsEveryTensorOfABatch) {
  TaskBatch batch;
  int tensors = 0, packings = 0;
  visit_device_parts(
      batch, [&](at::Tensor&) { ++tensors; }, [&](std::shared_ptr<const Packing>&) { ++packings; });
  EXPECT_EQ(packings, 2);
  // What else is in there: an int with its padding, lists of where the rows come from and of fields (none here),
  // host_ids and host_types.
  const std::size_t others = sizeof(void*) + sizeof(batch.fields) + sizeof(batch.data) + sizeof(batch.rows) +
                             2 * sizeof(at::Tensor) + static_cast<std::size_t>(packings) * sizeof(batch.batch.packing);
  EXPECT_EQ(sizeof(TaskBatch), others + static_cast<std::size_t>(tensors) * sizeof(at::Tensor));
}

TEST(HeldInput, TakesTheInputOfAnotherPassOfTheSameShape) {
  const World world;
  Params params(world.model->layout(), {.clients = 2});
  params.initialise(3);
  // Two pairs of rows with lengths the other way round: the same shape, other packings.
  std::map<std::size_t, std::vector<std::uint32_t>> by_length;
  for (std::uint32_t row = 0; row < 80; ++row) by_length[world.encoded->length(row)].push_back(row);
  std::vector<std::vector<std::uint32_t>> two;
  for (const auto& [length, rows] : by_length) {
    if (rows.size() >= 4 && two.size() < 2) two.push_back(rows);
  }
  ASSERT_EQ(two.size(), 2U);
  const PassInput first = world.input({{two[0][0], two[1][0]}, {two[0][1], two[1][1]}});
  const PassInput second = world.input({{two[1][2], two[0][2]}, {two[1][3], two[0][3]}});
  ASSERT_EQ(first.shape(), second.shape());
  const at::Tensor one = world.loss(params, first), other = world.loss(params, second);
  ASSERT_FALSE(one.equal(other));

  HeldInput held(first);
  EXPECT_THROW(held.input().batch.batch.packing->lengths(), InternalError);
  const void* place = held.input().batch.batch.ids.data_ptr();
  held.take(second);
  EXPECT_EQ(held.input().batch.batch.ids.data_ptr(), place);
  EXPECT_TRUE(held.input().batch.batch.ids.equal(second.batch.batch.ids));
  EXPECT_TRUE(held.input().batch.labels.equal(second.batch.labels));
  EXPECT_TRUE(held.input().batch.batch.packing->first_token().equal(second.batch.batch.packing->first_token()));
  EXPECT_TRUE(held.input().batch.batch.packing->attendable().equal(second.batch.batch.packing->attendable()));

  EXPECT_THROW(held.take(world.input({{two[0][0]}, {two[0][1]}})), InternalError);
}

TEST(StepRecorders, LendTheSameAgainWhereItFits) {
  const World world;
  const Params base(world.model->layout(), {}), other(world.model->layout(), {});
  StepRecorders recorders;
  auto first = recorders.lend(base, 3, {});
  EXPECT_EQ(first->params().clients(), 3);
  const StepRecorder* known = first.get();
  recorders.take_back(std::move(first));
  auto again = recorders.lend(base, 2, {});
  EXPECT_EQ(again.get(), known);
  EXPECT_EQ(recorders.lend(base, 2, {})->params().clients(), 2) << "the other is lent";
  recorders.take_back(std::move(again));
  EXPECT_EQ(recorders.lend(other, 3, {})->params().clients(), 3) << "of another network";
  EXPECT_EQ(recorders.lend(base, 4, {})->params().clients(), 4) << "too small";
  EXPECT_EQ(recorders.lend(base, 3, {.examples = true})->params().values().stride(0), 0) << "one vector for all rows";

  auto last = recorders.lend(base, 3, {});
  last->params().values().fill_(5);
  recorders.take_back(std::move(last));
  recorders.forget();
  EXPECT_EQ(recorders.lend(base, 3, {})->params().values().abs().max().item<float>(), 0) << "forgotten";
}

TEST(StepRecorder, OnAGpuGivesWhatPlainStepsGive) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  const World world;
  Params params(world.model->layout(), {.device = at::kCUDA});
  params.initialise(3);
  std::vector<TrainClient> clients;
  std::size_t begin = 0;
  for (const std::size_t size : {40U, 24U, 9U}) {
    clients.push_back({static_cast<ClientId>(begin), world.client(begin, size), static_cast<double>(size)});
    begin += size;
  }
  for (const char* yaml : {"{batch_size: 8, epochs: 2, learning_rate: 1e-3}",
                           "{batch_size: 4, accumulate: 3, learning_rate: 1e-3, weight_decay: 0.1}",
                           "{batch_size: 8, epochs: 2, learning_rate: 1e-3, precision: bfloat16}"}) {
    const TrainerConfig config = ConfigDocument::parse(yaml, "test").load<TrainerConfig>();
    StepRecorders recorders;
    const CohortTrainer plain({*world.task, *world.model, params}, config);
    const CohortTrainer recorded({*world.task, *world.model, params, nullptr, &recorders}, config);
    at::Tensor start = params.values()[0].clone();
    for (std::uint64_t round = 1; round <= 4; ++round) {
      const TrainResult expected = plain.train(clients, start, {.seed = 1, .round = round}, {}, {});
      const TrainResult result = recorded.train(clients, start, {.seed = 1, .round = round}, {}, {});
      // Gradients are summed in a different order each time.
      EXPECT_LT((result.values - expected.values).abs().mean().item<double>(), 1e-5) << yaml << " round " << round;
      for (std::size_t c = 0; c < clients.size(); ++c) EXPECT_NEAR(result.loss[c], expected.loss[c], 2e-3);
      start = expected.values.mean(0);
    }
    const auto recorder =
        recorders.lend(params, 3, {.shadow = config.precision == TrainerConfig::Precision::kBFloat16});
    EXPECT_GT(recorder->launched(), 10) << yaml;
  }
}

TEST(StepRecorders, GpuLearnersFitPredictAndProbeAsWithout) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  const World world;
  Params params(world.model->layout(), {.device = at::kCUDA});
  params.initialise(3);
  const std::vector<TrainClient> clients{{5, world.client(0, 24), 24}, {6, world.client(24, 24), 24}};
  const auto texts = std::make_shared<const PublicTexts>(PublicTexts{world.client(48, 16)});
  for (const char* yaml :
       {"{batch_size: 8, learning_rate: 1e-3}", "{batch_size: 8, learning_rate: 1e-3, precision: bfloat16}"}) {
    const TrainerConfig config = ConfigDocument::parse(yaml, "test").load<TrainerConfig>();
    StepRecorders recorders;
    const TrainMoment moment{.seed = 1, .round = 1, .rounds = 1};
    {
      const CohortTrainer without({*world.task, *world.model, params}, config);
      const CohortTrainer with({*world.task, *world.model, params, nullptr, &recorders}, config);
      const auto plain = without.learner(clients, params.values()[0], moment, {}, texts);
      const auto recorded = with.learner(clients, params.values()[0], moment, {}, texts);
      std::vector<std::uint32_t> rows(8);
      std::iota(rows.begin(), rows.end(), 4U);
      for (int step = 0; step < 6; ++step) {
        const at::Tensor expected = plain->predict_with_dropout(rows), logits = recorded->predict_with_dropout(rows);
        EXPECT_LT((logits - expected).abs().max().item<double>(), 2e-2) << yaml << " step " << step;
        Targets targets;
        targets.votes = torch::softmax(expected.to(at::kFloat) + step, -1);  // others in each step
        for (const std::unique_ptr<Learner>* each : {&plain, &recorded}) (*each)->renew(1);
        EXPECT_NEAR(recorded->fit(rows, targets).loss[1], plain->fit(rows, targets).loss[1], 5e-3);
        const ProbeWish wish{.dropout = true};
        EXPECT_NEAR(recorded->probe(0, wish).loss[0], plain->probe(0, wish).loss[0], 5e-3);
      }
      EXPECT_LT((recorded->values() - plain->values()).abs().mean().item<double>(), 1e-4) << yaml;
    }
    const auto recorder =
        recorders.lend(params, 2, {.shadow = config.precision == TrainerConfig::Precision::kBFloat16});
    EXPECT_GT(recorder->launched(), 8) << yaml;
  }
}

}  // namespace
}  // namespace chorus::inline trainer
