#include <gtest/gtest.h>
#include <torch/types.h>

#include "application/trainer/cohort_trainer.h"
#include "application/trainer/tiny_classifier_test.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

// Same seed, same bits: on a GPU, too (federation.deterministic).
TEST(Determinism, OnAGpuTrainingTwiceGivesTheSameBits) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  const tiny::Classifier world;
  Params params(world.model->layout(), {.device = at::kCUDA});
  Params start(world.model->layout(), {});
  start.initialise(3);
  params.values().copy_(start.values());
  const std::vector<TrainClient> clients{{5, world.client(0, 40), 40}, {6, world.client(40, 24), 24}};
  for (const char* yaml : {"{batch_size: 40, epochs: 3, learning_rate: 1e-3}",
                           "{batch_size: 20, epochs: 3, learning_rate: 1e-3, precision: bfloat16}",
                           "{batch_size: 40, epochs: 3, learning_rate: 0.05, optimizer: {name: sgd, momentum: 0.9}}"}) {
    const TrainerConfig config = ConfigDocument::parse(yaml, "test").load<TrainerConfig>();
    at::Tensor first;
    for (int time = 0; time < 4; ++time) {
      const TrainResult result = CohortTrainer({*world.task, *world.model, params}, config)
                                     .train(clients, params.values()[0], {.seed = 1, .round = 2}, {}, {});
      if (!first.defined()) first = result.values;
      EXPECT_FALSE(torch::equal(first[0], params.values()[0])) << "nothing was learnt";
      EXPECT_TRUE(torch::equal(first, result.values)) << yaml << ' ' << time;
    }
  }
}

}  // namespace
}  // namespace chorus::inline trainer
