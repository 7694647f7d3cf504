#include "application/trainer/split_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "application/trainer/cohort_trainer.h"
#include "application/trainer/distance_correlation.h"
#include "application/trainer/network_world_test.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

using testing::HasSubstr;

TrainerConfig how(const std::string& optimizer = "{name: sgd, momentum: 0.9}") {
  return ConfigDocument::parse("{batch_size: 6, epochs: 2, learning_rate: 0.01, clip: 0, optimizer: " + optimizer + "}",
                               "test")
      .load<TrainerConfig>();
}

struct SplitResult {
  at::Tensor values;
  double loss = 0, bytes_up = 0, bytes_down = 0, tokens = 0;
  std::vector<double> losses = {};  // of each step; not U-shaped
};

SplitResult train_split(const tiny::NetworkWorld& world, const SplitCut& cut, const TrainerConfig& config,
                        const SplitGuard& guard = {}) {
  const SplitTrainingDesk desk(world.trainer(), config, 1, 1);
  const SplitParts parts = desk.parts(cut);
  const std::int64_t steps = CohortTrainer(world.trainer(), config).steps(world.client.data.rows.size());
  const auto client = split_client({world.trainer(),
                                    config,
                                    world.client,
                                    {1, 2, 1},
                                    cut,
                                    guard,
                                    world.start().index_select(0, parts.client),
                                    steps});
  const auto server = desk.server(cut, world.start().index_select(0, parts.server), 2);
  server->begin(client->steps());
  SplitResult result;
  while (!client->done()) {
    const Message up = client->forward();
    result.bytes_up += 4 * static_cast<double>(up.tensor("activations").numel());
    Message down;
    if (cut.labels_stay) {
      EXPECT_FALSE(up.has_tensor("labels") || up.has_tensor("target_ids") || up.has_tensor("starts"));
      down = server->backward(client->answer(server->forward(7, up)));
    } else {
      down = server->answer(7, up);
      result.losses.push_back(server->last_loss());
      result.loss += server->last_loss() / static_cast<double>(steps);
    }
    result.bytes_down += 4 * static_cast<double>(down.tensor("gradient").numel());
    client->backward(down);
  }
  if (cut.labels_stay) result.loss = client->loss();
  result.tokens = client->tokens();
  result.values = torch::zeros_like(world.start());
  result.values.index_copy_(0, parts.client, client->values());
  result.values.index_copy_(0, parts.server, server->values());
  return result;
}

TEST(SplitTraining, EqualsUnsplitTrainingAtEveryCutBitForBit) {
  struct Case {
    Formulation formulation;
    const char *task, *type;
    bool tied = true;
  };
  const std::vector<Case> cases{{Formulation::kTextClassification, "text_classification", "bert"},
                                {Formulation::kTextClassification, "text_classification", "distilbert"},
                                {Formulation::kSequenceTagging, "seq_tagging", "roberta"},
                                {Formulation::kSpanExtraction, "span_extraction", "bert"},
                                {Formulation::kLanguageModel, "masked_lm", "bert"},
                                {Formulation::kLanguageModel, "causal_lm", "gpt2"},
                                {Formulation::kLanguageModel, "causal_lm", "gpt2", false},
                                {Formulation::kSeq2Seq, "seq2seq", "bart"},
                                {Formulation::kSeq2Seq, "seq2seq", "t5"}};
  for (const Case& each : cases) {
    const tiny::NetworkWorld world(each.formulation, each.task, each.type, each.tied);
    const TrainResult whole =
        CohortTrainer(world.trainer(), how()).train({&world.client, 1}, world.start(), {1, 2, 1}, {}, {});
    ASSERT_FALSE(torch::equal(whole.values[0], world.start()));
    const auto learner =
        CohortTrainer(world.trainer(), how()).learner({&world.client, 1}, world.start(), {1, 2, 1}, {}, {});
    std::vector<double> losses;
    for (double step = 0; step < whole.steps[0]; ++step) losses.push_back(learner->train(1).loss[0]);
    for (const bool labels_stay : {false, true}) {
      const int most = world.model->cuts() - (labels_stay ? 1 : 0);
      for (int layers = 0; layers <= most; ++layers) {
        const SplitResult split = train_split(world, {layers, labels_stay}, how());
        SCOPED_TRACE(std::string(each.task) + " " + each.type + (labels_stay ? " U " : " ") + std::to_string(layers));
        EXPECT_TRUE(torch::equal(split.values, whole.values[0]))
            << (split.values - whole.values[0]).abs().max().item<double>();
        EXPECT_NEAR(split.loss, whole.loss[0], 1e-6);  // means of the same losses
        EXPECT_TRUE(labels_stay || split.losses == losses);
        // Activations and their gradients: tokens x width float32 elements each way.
        EXPECT_EQ(split.bytes_up, 4 * split.tokens * 16);
        EXPECT_EQ(split.bytes_down, split.bytes_up);
      }
    }
  }
}

TEST(SplitTraining, AdaptiveOptimizersAgreeAtEveryCut) {
  const tiny::NetworkWorld world(Formulation::kTextClassification, "text_classification", "bert");
  for (const char* optimizer : {"adamw", "{name: adamw, beta1: 0.5}"}) {
    const TrainerConfig config = how(optimizer);
    const TrainResult whole =
        CohortTrainer(world.trainer(), config).train({&world.client, 1}, world.start(), {1, 2, 1}, {}, {});
    for (int layers = 0; layers <= 3; ++layers) {
      EXPECT_TRUE(torch::equal(train_split(world, {layers, false}, config).values, whole.values[0])) << layers;
    }
  }
}

TEST(SplitTraining, ProtectionChangesWhatLeavesAndNothingElse) {
  const tiny::NetworkWorld world(Formulation::kTextClassification, "text_classification", "bert");
  const at::Tensor plain = train_split(world, {1, false}, how()).values;
  const at::Tensor noisy = train_split(world, {1, false}, how(), {.noise = 0.1}).values;
  EXPECT_FALSE(torch::equal(noisy, plain));
  EXPECT_TRUE(torch::equal(noisy, train_split(world, {1, false}, how(), {.noise = 0.1}).values));  // same seed
  EXPECT_FALSE(torch::equal(train_split(world, {1, false}, how(), {.decorrelate = 0.5}).values, plain));
}

TEST(SplitTraining, RefusesWhatDoesNotFit) {
  const tiny::NetworkWorld world(Formulation::kTextClassification, "text_classification", "bert");
  const SplitTrainingDesk desk(world.trainer(), how(), 1, 1);
  const auto message_of = [&](const SplitCut& cut) -> std::string {
    try {
      desk.parts(cut);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message_of({4, false}),
              HasSubstr("algorithm.layers is 4, but the network has 3 layers; set it to 0 to 3"));
  EXPECT_THAT(message_of({3, true}), HasSubstr("0 to 2"));
  const tiny::NetworkWorld lstm(Formulation::kTextClassification, "text_classification", "bilstm");
  EXPECT_THROW(SplitTrainingDesk(lstm.trainer(), how(), 1, 1).parts({0, false}), ConfigError);
  const SplitParts parts = desk.parts({1, false});
  EXPECT_THROW(desk.server({1, false}, torch::zeros({3}), 2), DataError);
  const at::Tensor start = world.start().index_select(0, parts.client);
  const auto client = split_client({world.trainer(), how(), world.client, {1, 2, 1}, {1, false}, {}, start, 4});
  const auto server = desk.server({1, false}, world.start().index_select(0, parts.server), 2);
  server->begin(4);
  const Message good = client->forward();
  const auto refused = [&](const std::function<void(Message&)>& spoil) {
    Message bad = good;
    spoil(bad);
    EXPECT_THROW(server->answer(7, bad), DataError);
  };
  refused([](Message& m) { m.tensors.erase("activations"); });
  refused([](Message& m) { m.tensors["activations"] = m.tensors["activations"].narrow(0, 0, 2); });
  refused([](Message& m) { m.tensors["activations"] = m.tensors["activations"] + std::nanf(""); });
  refused([](Message& m) { m.tensors["lengths"] = torch::zeros({6}, at::kLong); });
  refused([](Message& m) { m.tensors["lengths"] = m.tensors["lengths"] + 1; });
  refused([](Message& m) { m.tensors["labels"] = torch::full({6}, 99, at::kLong); });
  refused([](Message& m) { m.tensors["labels"] = torch::zeros({7}, at::kLong); });
  refused([](Message& m) { m.tensors.erase("labels"); });
  refused([](Message& m) { m.numbers["calls"] = -1; });
  refused([](Message& m) { m.numbers["batch"] = std::nan(""); });
  Message wrong = server->answer(7, good);
  wrong.tensors["gradient"] = wrong.tensors["gradient"].narrow(0, 0, 1);
  EXPECT_THROW(client->backward(wrong), DataError);
}

TEST(SplitTraining, SuggestsLayersForADevicesMemory) {
  const tiny::NetworkWorld world(Formulation::kTextClassification, "text_classification", "bert");
  std::vector<double> needed;
  for (int layers = 0; layers <= 3; ++layers) {
    needed.push_back(
        side_memory(*world.model, split_side(*world.model, *world.params, {layers, false}, SplitRole::kClient), 100));
  }
  EXPECT_TRUE(std::is_sorted(needed.begin(), needed.end()));
  EXPECT_EQ(layers_for_memory(*world.model, *world.params, needed[2], 100, false), 2);
  EXPECT_EQ(layers_for_memory(*world.model, *world.params, 1e12, 100, false), 3);
  EXPECT_EQ(layers_for_memory(*world.model, *world.params, 1e12, 100, true), 2);
  EXPECT_FALSE(layers_for_memory(*world.model, *world.params, needed[0] - 1, 100, false).has_value());
}

TEST(DistanceCorrelation, HasItsClosedForms) {
  const at::Tensor x = torch::linspace(-1, 2, 30, at::kDouble).view({10, 3}).sin();
  // Moving, scaling and turning change nothing.
  const at::Tensor turned = torch::stack({x.select(1, 1), x.select(1, 2), x.select(1, 0)}, 1) * -3 + 7;
  EXPECT_NEAR(distance_correlation(x, turned).item<double>(), 1, 1e-9);
  // Two points each: all distances are alike up to a factor.
  EXPECT_NEAR(distance_correlation(x.narrow(0, 0, 2), x.narrow(0, 5, 2)).item<double>(), 1, 1e-9);
  // x in {0, 1} and z in {0, 1} in all combinations: independent.
  const at::Tensor a = torch::tensor({0., 0., 1., 1.}).view({4, 1}), b = torch::tensor({0., 1., 0., 1.}).view({4, 1});
  EXPECT_NEAR(distance_correlation(a, b).item<double>(), 0, 1e-9);
  // Its gradient against finite differences.
  const at::Tensor z = (x * 2 + x.flip(0)).clone().requires_grad_();
  distance_correlation(x, z).backward();
  at::Tensor ahead = z.detach().clone(), behind = z.detach().clone();
  ahead[4][1] += 1e-6;
  behind[4][1] -= 1e-6;
  const double slope = (distance_correlation(x, ahead) - distance_correlation(x, behind)).item<double>() / 2e-6;
  EXPECT_NEAR(z.grad()[4][1].item<double>(), slope, 1e-6);
}

}  // namespace
}  // namespace chorus::inline trainer
