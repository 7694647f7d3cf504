#include "apps/experiment/task_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "apps/experiment/experiment.h"
#include "apps/experiment/tiny_experiment_test.h"
#include "core/base/error.h"

namespace chorus::inline experiment {
namespace {

std::int64_t elements_of(const FilterBlock& block) {
  return std::accumulate(block.shape.begin(), block.shape.end(), std::int64_t{1}, std::multiplies<>());
}

TEST(TaskModelFilters, BlocksAreTheTrainableParametersInOrder) {
  const Experiment experiment(tiny_experiment({"tuning.name=lora"}));
  const FilterEndInput input = experiment.task_model().filters();
  const Layout& layout = experiment.model().layout();
  ASSERT_LT(layout.trainable_size(), layout.size());
  std::int64_t end = 0;
  const auto blocks = input.blocks(layout.trainable_size());
  ASSERT_FALSE(blocks.empty());
  for (const FilterBlock& block : blocks) {
    EXPECT_GE(block.offset, end) << "blocks overlap";
    end = block.offset + elements_of(block);
  }
  EXPECT_LE(end, layout.trainable_size());
  std::size_t training = 0;
  for (const ParamSpec& spec : layout.specs()) training += spec.trainable ? 1 : 0;
  EXPECT_EQ(blocks.size(), training);
}

TEST(TaskModelFilters, AVectorOfAnotherSizeHasNoBlocks) {
  const Experiment experiment(tiny_experiment());
  const FilterEndInput input = experiment.task_model().filters();
  const std::int64_t size = experiment.model().layout().trainable_size();
  EXPECT_TRUE(input.blocks(size - 1).empty());
  EXPECT_TRUE(input.blocks(0).empty());
  EXPECT_FALSE(input.blocks(size).empty());
}

TEST(TaskModelFilters, BothEndsKnowTheSeedAndTheInitialNetwork) {
  const Experiment experiment(tiny_experiment({"seed=11"}));
  const FilterEndInput input = experiment.task_model().filters();
  EXPECT_EQ(input.seed, 11U);
  EXPECT_TRUE(torch::equal(input.reference, experiment.params().values()[0]));
  EXPECT_EQ(input.variants, &experiment.task_model().network());
  EXPECT_EQ(input.device, experiment.params().device());
}

TEST(TaskModelFilters, TheLimitAdmitsARunsOwnUpdate) {
  const Experiment experiment(tiny_experiment());
  EXPECT_GE(experiment.task_model().filters().most_elements,
            static_cast<std::size_t>(experiment.model().layout().size()));
}

TEST(TaskModelFilters, AnUpdatePassesThroughTheConfiguredFilters) {
  const Experiment experiment(tiny_experiment({"compression={up: [{name: uniform, bits: 8}], down: [fp16]}"}));
  const FilterEndInput input = experiment.task_model().filters();
  const FilterEnd server(input, FilterEnd::Side::kServer), client(input, FilterEnd::Side::kClient);
  const std::int64_t size = experiment.model().layout().trainable_size();
  const at::Tensor update = torch::linspace(-1, 1, size, at::kFloat);

  ClientState memory;
  GateMoment moment{
      .procedure = "train", .variant = {}, .round = 1, .ask = 0, .client = 4, .memory = [&]() -> ClientState& {
        return memory;
      }};
  Message reply;
  reply.tensors["update"] = update.clone();
  const GateTotals sent = client.send(reply, moment);
  EXPECT_LT(reply.bytes(), static_cast<std::uint64_t>(size) * 2) << "8 bits take a quarter of float32";
  EXPECT_NEAR(sent.ratio(), 4, 0.3);
  server.receive(reply, moment);
  ASSERT_EQ(reply.tensor("update").numel(), size);
  EXPECT_LT((reply.tensor("update") - update).abs().max().item<float>(), 0.02);

  // Down, in half precision: relative errors up to 2^-11.
  Message request;
  request.tensors["model"] = update.clone();
  GateMoment everybody = moment;
  everybody.client = 0;
  EXPECT_NEAR(server.send(request, everybody).ratio(), 2, 0.2);
  client.receive(request, everybody);
  EXPECT_LT((request.tensor("model") - update).abs().max().item<float>(), 1.0 / 1024);
}

TEST(TaskModelFilters, WithoutFiltersMessagesStayAsTheyAre) {
  const Experiment experiment(tiny_experiment());
  const FilterEnd client(experiment.task_model().filters(), FilterEnd::Side::kClient);
  Message reply;
  reply.tensors["update"] = torch::randn({experiment.model().layout().trainable_size()});
  const at::Tensor before = reply.tensor("update").clone();
  EXPECT_EQ(client.send(reply, {.procedure = "train"}).ratio(), 1);
  EXPECT_TRUE(torch::equal(reply.tensor("update"), before));
}

}  // namespace
}  // namespace chorus::inline experiment
