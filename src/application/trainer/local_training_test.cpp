#include "application/trainer/local_training.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "application/trainer/cohort_trainer.h"
#include "application/trainer/tiny_classifier_test.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

/// Two clients of a tiny classifier that learn, and the predictions of any values on the texts of the first.
struct TeacherWorld : tiny::Classifier {
  TeacherWorld() { params.initialise(3); }

  TrainResult train(const at::Tensor& start, const TrainWish& wish, const std::string& rate) const {
    const auto config = ConfigDocument::parse(
                            "{batch_size: 8, epochs: 4, clip: 0, dropout: false, learning_rate: " + rate + "}", "test")
                            .load<TrainerConfig>();
    return CohortTrainer({*task, *model, params}, config).train(clients, start, {1, 2, 4}, wish, {});
  }
  at::Tensor predictions(const at::Tensor& values) const {
    std::vector<ClientRows> cohort{{encoded.get(), clients[0].data.rows}};
    const TaskBatch batch = task->collate(cohort);
    const Params mine = Params::copies_of_start(params, 1, false, values);
    Dropout off;
    return torch::softmax(model->forward(mine, batch.batch, off).logits[0], -1);
  }

  Params params = Params(model->layout(), {});
  std::vector<TrainClient> clients{{5, client(0, 40), 40}, {6, client(40, 24), 24}};
};

// Learning without forgetting: predictions stay where a teacher's are, although the labels pull elsewhere.
TEST(LocalTraining, ATeacherHoldsPredictions) {
  const TeacherWorld world;
  const at::Tensor start = world.params.values()[0];
  const at::Tensor before = world.predictions(start);
  const auto moved = [&](double weight, double other) {
    TrainWish wish;
    wish.teacher = {start.unsqueeze(0).repeat({2, 1}), {weight, other}, 2};
    return (world.predictions(world.train(start, wish, "3e-3").values[0]) - before).abs().sum(1).mean().item<double>();
  };
  const double free = moved(0, 0), held = moved(1, 0), bound = moved(30, 0);
  EXPECT_GT(free, 0.5) << "the labels teach nothing";
  EXPECT_LT(held, free);
  EXPECT_LT(bound, 0.2 * free);
  EXPECT_EQ(moved(0, 30), free) << "every client has its own weight";
  EXPECT_TRUE(world.train(start, {}, "3e-3").values.equal([&] {
    TrainWish wish;
    wish.teacher = {start.unsqueeze(0).repeat({2, 1}), {0, 0}, 2};
    return world.train(start, wish, "3e-3").values;
  }()))
      << "a weight of 0 is no teacher";
}

}  // namespace
}  // namespace chorus::inline trainer
