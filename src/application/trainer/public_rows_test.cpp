#include "application/trainer/public_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "application/tasks/encode_split.h"
#include "application/tasks/tiny_world_test.h"
#include "application/trainer/cohort_trainer.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

/// Two clients of a language model, and public texts that are none of theirs.
struct TextWorld {
  explicit TextWorld(const char* name)
      : task(Tasks::make(name, TaskInput::of(data, tokenizer))),
        model(make_model(tiny::model_config(task->head(), *tokenizer), task->head())) {
    params.emplace(model->layout(), Params::Options{});
    params->initialise(3);
    encoded = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;
    clients = {{5, client(0, 16), 16}, {6, client(16, 8), 8}};
    plain = std::make_shared<PublicTexts>(PublicTexts{client(24, 8)});
    auto set = std::make_shared<PublicTexts>(*plain);
    set->words = std::make_shared<SharedWords>(SharedWords::Input{*task, data, *plain, 12});
    shared = set;
  }
  ClientData client(std::size_t first, std::size_t count) const {
    return task->client_data(encoded, data.split(Split::kTrain).subspan(first, count));
  }
  std::unique_ptr<Learner> learner(const std::shared_ptr<const PublicTexts>& set,
                                   const std::string& more = "optimizer: sgd") const {
    const auto config =
        ConfigDocument::parse(std::string("{batch_size: 4, learning_rate: 1e-2, clip: 0, ") + more + "}", "test");
    return CohortTrainer({*task, *model, *params}, config.load<TrainerConfig>())
        .learner(clients, params->values()[0], {}, {}, set);
  }
  /// A teacher: probabilities over words, the same for both clients.
  Targets targets(double own) const {
    torch::manual_seed(1);
    const std::int64_t answers = learner(shared)->predict(rows).size(1);
    Targets result{.probabilities = torch::softmax(torch::randn({answers, 12}), -1)};
    result.own = own;
    return result;
  }

  Dataset data = tiny::dataset(Formulation::kLanguageModel);
  std::shared_ptr<const Tokenizer> tokenizer = tiny::tokenizer(data, 60);
  std::unique_ptr<Task> task;
  std::unique_ptr<Model> model;
  std::optional<Params> params;
  std::shared_ptr<const EncodedDataset> encoded;
  std::vector<TrainClient> clients;
  std::shared_ptr<const PublicTexts> plain, shared;
  std::vector<std::uint32_t> rows{6, 1, 3};
};

TEST(PublicRows, TextsAloneAreOrdinaryTrainingOfALanguageModel) {
  for (const char* name : {"causal_lm", "masked_lm"}) {
    const TextWorld world(name);
    for (const char* more : {"optimizer: sgd", "optimizer: adamw"}) {
      const auto ordinary = world.learner(world.plain, more), texts = world.learner(world.shared, more),
                 unasked = world.learner(world.shared, more);
      for (int step = 0; step < 2; ++step) {
        const LearnResult loss = ordinary->fit(world.rows, {}), same = texts->fit(world.rows, world.targets(1));
        unasked->fit(world.rows, {});
        EXPECT_EQ(loss.loss, same.loss) << name << more;
      }
      EXPECT_TRUE(texts->values().equal(ordinary->values())) << name << more;
      EXPECT_TRUE(texts->values().equal(unasked->values())) << name << more;
      EXPECT_FALSE(torch::allclose(texts->values()[0], world.params->values()[0], 1e-4, 1e-5));
    }
  }
}

TEST(PublicRows, TheLossIsMixedOfTextsAndPredictions) {
  for (const char* name : {"causal_lm", "masked_lm"}) {
    const TextWorld world(name);
    std::vector<at::Tensor> steps;
    std::vector<double> losses;
    for (const double own : {0.0, 0.25, 0.5, 0.75}) {
      const auto learner = world.learner(world.shared, "optimizer: sgd, dropout: false");
      losses.push_back(learner->fit(world.rows, world.targets(own)).loss[1]);
      steps.push_back(learner->values() - world.params->values());
    }
    EXPECT_NEAR(losses[2], (losses[1] + losses[3]) / 2, 1e-5) << name;
    EXPECT_TRUE(torch::allclose(steps[2], (steps[1] + steps[3]) / 2, 1e-3, 1e-6)) << name;
    EXPECT_GT((steps[3] - steps[1]).abs().max().item<double>(), 1e-4) << name;
    if (!world.task->rows_change()) {  // without other hidden tokens, the parts are those of shares 0 and 1
      const auto texts = world.learner(world.shared, "optimizer: sgd, dropout: false");
      losses.push_back(texts->fit(world.rows, {}).loss[1]);
      EXPECT_NEAR(losses[1], 0.75 * losses[0] + 0.25 * losses[4], 1e-5);
      EXPECT_TRUE(
          torch::allclose(steps[1], 0.75 * steps[0] + 0.25 * (texts->values() - world.params->values()), 1e-3, 1e-6));
    }
  }
}

TEST(PublicRows, OnlyLanguageModelsLearnFromTextsAlone) {
  const TextWorld world("causal_lm");
  EXPECT_THROW(world.learner(world.shared)->fit(world.rows, world.targets(1.5)), ConfigError);
  Targets scores{.scores = torch::zeros({1})};
  scores.own = 0.5;
  EXPECT_THROW(world.learner(world.plain)->fit(world.rows, scores), ConfigError) << "a set without shared words";
}

}  // namespace
}  // namespace chorus::inline trainer
