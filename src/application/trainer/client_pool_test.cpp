#include "application/trainer/client_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "application/tasks/causal_lm_task.h"
#include "application/tasks/encode_split.h"
#include "application/tasks/tiny_world_test.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A causal language model and three clients with four texts each; the second client's texts are empty.
struct LanguageWorld {
  static Dataset texts() {
    DatasetBuilder builder({.formulation = Formulation::kLanguageModel, .empty = EmptyText::kKeep});
    for (std::uint64_t i = 0; i < 24; ++i) {
      Record record = tiny::record(Formulation::kLanguageModel, i);
      if (i % 12 / 4 == 1) record.text.clear();
      builder.add(record, i < 12 ? Split::kTrain : Split::kTest);
    }
    return std::move(builder).finish();
  }
  static ClientLists lists(std::uint32_t first) {
    ClientLists result;
    for (std::uint32_t client = 0; client < 3; ++client) {
      std::vector<ExampleId> ids(4);
      std::iota(ids.begin(), ids.end(), first + 4 * client);
      result.append(ids);
    }
    return result;
  }

  explicit LanguageWorld(std::int64_t block_length = 0)
      : task(std::make_unique<CausalLmTask>(CausalLmConfig{.max_length = 32, .block_length = block_length},
                                            TaskInput{words})) {
    params.initialise(3);
  }

  std::unique_ptr<Workbench> open(const TrainerConfig& config, std::vector<ClientId> clients) {
    ClientPoolInput input{.trainer = {*task, *model, params}, .config = config, .data = data, .train = train};
    input.test = test;
    input.train_lists = &train_lists;
    input.test_lists = &test_lists;
    input.public_set = {test, {12, 13, 14}};
    pool = std::make_unique<ClientPool>(input);
    return pool->open(clients, 1);
  }

  Dataset data = texts();
  std::shared_ptr<const Tokenizer> words = tiny::tokenizer(data);
  std::unique_ptr<Task> task;
  std::unique_ptr<Model> model = make_model(tiny::model_config(task->head(), *words), task->head());
  Params params = Params(model->layout(), {});
  std::shared_ptr<const EncodedDataset> train = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;
  std::shared_ptr<const EncodedDataset> test = encode_split(*task, data, Split::kTest, {.cache = "none"}).data;
  ClientLists train_lists = lists(0), test_lists = lists(12);
  std::unique_ptr<ClientPool> pool;
};

TEST(ClientPool, AClientWithoutRowsFailsAlone) {
  for (const char* yaml : {"{batch_size: 2, learning_rate: 1e-3}", "{batch_size: 2, steps: 3, learning_rate: 1e-3}"}) {
    const TrainerConfig config = ConfigDocument::parse(yaml, "test").load<TrainerConfig>();
    for (const std::int64_t block : {0, 16}) {
      LanguageWorld world(block);
      const at::Tensor start = world.params.values()[0].clone();
      const TrainResult pair = world.open(config, {0, 2})->train(start);
      const GradientResult pair_gradient = world.open(config, {0, 2})->gradient(start, true);

      const auto bench = world.open(config, {0, 1, 2});
      ASSERT_EQ(bench->clients()[2], 1U) << "sorted by work";
      const TrainResult all = bench->train(start);
      EXPECT_THAT(all.failures, ElementsAre("", "", HasSubstr("no rows")));
      EXPECT_TRUE(all.values.narrow(0, 0, 2).equal(pair.values));
      EXPECT_TRUE(all.values[2].equal(start));
      EXPECT_THAT(all.steps[2], 0);
      const TrainResult updates = bench->train(start, {.updates = true});
      EXPECT_EQ(updates.values[2].abs().max().item<float>(), 0);
      EXPECT_THAT(updates.finite, ElementsAre(true, true, true));

      const GradientResult gradient = bench->gradient(start, true);
      EXPECT_THAT(gradient.failures, ElementsAre("", "", HasSubstr("no rows")));
      EXPECT_TRUE(gradient.gradients.narrow(0, 0, 2).equal(pair_gradient.gradients));

      const std::vector<Message> scores = bench->evaluate(start, Workbench::TestOn::kOwn);
      EXPECT_GT(totals_of(scores[0]).examples, 0U);
      EXPECT_TRUE(scores[2].texts.empty() && scores[2].tensors.empty()) << "nothing to report";

      const auto alone = world.open(config, {1});
      EXPECT_THAT(alone->train(start).failures, ElementsAre(HasSubstr("no rows")));
      EXPECT_THAT(alone->gradient(start, false).failures, ElementsAre(HasSubstr("no rows")));
    }
  }
}

TEST(ClientPool, ClientsPredictAndFitRowsOfThePublicSet) {
  LanguageWorld world;
  const auto bench = world.open(
      ConfigDocument::parse("{batch_size: 2, learning_rate: 1e-3}", "test").load<TrainerConfig>(), {0, 1, 2});
  EXPECT_EQ(&bench->layout(), &world.model->layout());
  ASSERT_EQ(bench->public_rows(), 3U);
  const at::Tensor start = world.params.values()[0].clone();
  const std::vector<std::uint32_t> rows{2, 0};
  const auto tokens = static_cast<std::int64_t>(world.test->length(2) + world.test->length(0) - 2);  // all but the last
  const at::Tensor same = bench->predict(start, rows);
  ASSERT_EQ(same.sizes(), (at::IntArrayRef{3, tokens, world.model->vocabulary()}));
  EXPECT_TRUE(torch::allclose(bench->predict(start.repeat({3, 1}), rows), same, 1e-5, 1e-6));

  const auto learner = bench->learner(start, {.steps = 100});
  EXPECT_TRUE(learner->predict(rows).equal(bench->predict(start.repeat({3, 1}), rows)));
  // Training on another network's outputs comes closer to them, even for a client without rows of its own.
  Params teacher(world.model->layout(), {});
  teacher.initialise(9);
  const at::Tensor answers = torch::softmax(bench->predict(teacher.values()[0], rows)[0] / 2, -1);
  const LearnResult first = learner->fit(rows, {.probabilities = answers, .temperature = 2});
  for (int step = 0; step < 20; ++step) learner->fit(rows, {.probabilities = answers, .temperature = 2});
  const LearnResult last = learner->fit(rows, {.probabilities = answers, .temperature = 2});
  for (std::size_t c = 0; c < 3; ++c) EXPECT_LT(last.loss[c], 0.5 * first.loss[c]);
}

TEST(ClientPool, AClientTrainsTheSameWhoeverElseIsHosted) {
  const TrainerConfig config =
      ConfigDocument::parse("{batch_size: 2, learning_rate: 1e-3}", "test").load<TrainerConfig>();
  LanguageWorld world;
  const at::Tensor start = world.params.values()[0].clone();
  const at::Tensor among_all = world.open(config, {2})->train(start).values;
  ClientLists own, own_test;
  own.append(world.train_lists[2]);
  own_test.append(world.test_lists[2]);
  ClientPoolInput input{
      .trainer = {*world.task, *world.model, world.params}, .config = config, .data = world.data, .train = world.train};
  input.test = world.test;
  input.train_lists = &own;
  input.test_lists = &own_test;
  const auto trained_as = [&](ClientId id) {
    input.ids = {id};
    const ClientPool pool(input);
    EXPECT_EQ(pool.roster().members()[0].id, id);
    EXPECT_EQ(pool.roster().size_of(id), 4);
    const auto bench = pool.open(input.ids, 1);
    EXPECT_GT(totals_of(bench->evaluate(start, Workbench::TestOn::kOwn)[0]).examples, 0U);
    return bench->train(start).values;
  };
  EXPECT_TRUE(trained_as(2).equal(among_all));
  // Batches are drawn by client id. Four rows can be paired in three ways: ids 1, 2 and 3 draw different ones.
  EXPECT_FALSE(trained_as(1).equal(among_all));
  EXPECT_FALSE(trained_as(3).equal(among_all));
  EXPECT_FALSE(trained_as(3).equal(trained_as(1)));
  const ClientPool pool(input);
  const std::vector<ClientId> strangers{0};
  EXPECT_THROW(pool.open(strangers, 1), InternalError);
}

}  // namespace
}  // namespace chorus::inline trainer
