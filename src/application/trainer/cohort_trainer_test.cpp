#include "application/trainer/cohort_trainer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>

#include "application/trainer/client_pool.h"
#include "application/trainer/tiny_classifier_test.h"
#include "core/base/error.h"
#include "core/base/stop_point.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

/// A tiny classifier and three clients with 40, 24 and 9 examples.
struct Bench : tiny::Classifier {
  Params params = [this] {
    Params result(model->layout(), {});
    result.initialise(3);
    return result;
  }();

  std::vector<TrainClient> clients() const {
    std::vector<TrainClient> result;
    std::size_t begin = 0;
    ClientId id = 5;
    for (const std::size_t size : {40U, 24U, 9U}) {
      result.push_back({id++, client(begin, size), static_cast<double>(size)});
      begin += size;
    }
    return result;
  }

  TrainResult train(const TrainerConfig& config, std::span<const TrainClient> cohort, const TrainWish& wish = {},
                    std::span<ClientState* const> states = {}) const {
    return CohortTrainer({*task, *model, params}, config)
        .train(cohort, params.values()[0], {.seed = 1, .round = 2}, wish, states);
  }
};

TrainerConfig config_of(const std::string& yaml) { return ConfigDocument::parse(yaml, "test").load<TrainerConfig>(); }

TEST(CohortTrainer, EndsAtTheNextStepWhenNobodyWantsTheResult) {
  const Bench bench;
  const auto clients = bench.clients();
  const TrainerConfig config = config_of("{batch_size: 8, learning_rate: 1e-3}");
  std::atomic<bool> stop = false;
  int steps = 0;
  TrainWish wish;
  wish.adjust = [&](const at::Tensor&, const at::Tensor&) { stop = ++steps == 2; };
  const at::Tensor expected = bench.train(config, clients).values;
  {
    const StopScope scope(stop);
    EXPECT_THROW((void)bench.train(config, clients, wish), Interrupted);
    EXPECT_EQ(steps, 2);
    EXPECT_THROW((void)CohortTrainer({*bench.task, *bench.model, bench.params}, config)
                     .gradient(clients, bench.params.values()[0], {.seed = 1}, false),
                 Interrupted);
  }
  EXPECT_TRUE(torch::equal(bench.train(config, clients).values, expected));
}

TEST(CohortTrainer, AClientTrainsTheSameAloneAndAmongOthers) {
  const Bench bench;
  const auto clients = bench.clients();
  for (const char* yaml : {"{batch_size: 8, epochs: 2, learning_rate: 1e-3}",
                           "{batch_size: 4, accumulate: 3, learning_rate: 1e-3, weight_decay: 0.1}",
                           "{steps: 5, batch_size: 8, optimizer: {name: sgd, momentum: 0.9}, learning_rate: 0.05}",
                           "{batch_size: 8, optimizer: adafactor, learning_rate: 1e-3, clip: 0}"}) {
    const TrainerConfig config = config_of(yaml);
    const TrainResult together = bench.train(config, clients);
    ASSERT_EQ(together.values.size(0), 3);
    for (std::size_t c = 0; c < clients.size(); ++c) {
      const TrainResult alone = bench.train(config, std::span(clients).subspan(c, 1));
      // Rounding differs. AdamW makes whole steps even if a gradient is only rounding noise (a key's bias has gradient
      // 0 in theory), and Adafactor larger ones, so these few values may differ by that much.
      const at::Tensor error = (alone.values[0] - together.values[static_cast<std::int64_t>(c)]).abs();
      const std::string& name = config.optimizer.name();
      EXPECT_LT(error.mean().item<double>(), name == "adafactor" ? 1e-5 : 1e-7) << yaml << " client " << c;
      EXPECT_LT(error.max().item<double>(), name == "sgd" ? 1e-5 : name == "adamw" ? 5e-4 : 1e-2) << yaml;
      EXPECT_NEAR(alone.loss[0], together.loss[c], 1e-4);
      EXPECT_EQ(alone.steps[0], together.steps[c]);
      EXPECT_NE(alone.values[0].sub(bench.params.values()[0]).abs().max().item<double>(), 0);
    }
  }
}

// Learning without forgetting.
TEST(CohortTrainer, ATeacherChangesEveryStepButTheFirst) {
  const Bench bench;
  const auto clients = bench.clients();
  TrainWish taught;
  taught.teacher.values = bench.params.values().expand({3, -1}).clone();
  taught.teacher.weights = {5, 5, 0};
  const char* common = "batch_size: 8, optimizer: sgd, learning_rate: 0.02, clip: 0, dropout: false}";
  // At the teacher itself the divergence has no gradient, so the first step is the usual one.
  const TrainerConfig once = config_of(std::string("{steps: 1, ") + common);
  EXPECT_TRUE(
      torch::allclose(bench.train(once, clients, taught).values, bench.train(once, clients).values, 1e-5, 1e-6));
  const TrainerConfig often = config_of(std::string("{steps: 15, ") + common);
  const at::Tensor held = bench.train(often, clients, taught).values - bench.params.values();
  const at::Tensor free = bench.train(often, clients).values - bench.params.values();
  for (const std::int64_t c : {0, 1}) EXPECT_FALSE(torch::allclose(held[c], free[c], 1e-3, 1e-6));
  EXPECT_TRUE(torch::allclose(held[2], free[2], 1e-4, 1e-6));  // weight 0
}

TEST(CohortTrainer, CountsStepsBatchesAndRates) {
  const Bench bench;
  const auto clients = bench.clients();
  const TrainResult result = bench.train(
      config_of("{batch_size: 8, epochs: 2, accumulate: 4, learning_rate: 0.01, schedule: {shape: constant, "
                "warmup: 0}, optimizer: sgd}"),
      clients);
  EXPECT_THAT(result.batches, testing::ElementsAre(10, 6, 4));
  EXPECT_THAT(result.steps, testing::ElementsAre(3, 2, 1));
  EXPECT_NEAR(result.rate_sum[0], 0.03, 1e-12);
  EXPECT_THAT(result.examples, testing::ElementsAre(40, 24, 9));
}

TEST(CohortTrainer, AScheduleOverTheRunEndsWithItsLastRound) {
  const Bench bench;
  const auto clients = bench.clients();
  const auto rates = [&](const char* span, TrainMoment moment) {
    const TrainerConfig config = config_of(fmt::format(
        "{{batch_size: 8, learning_rate: 1, optimizer: sgd, schedule: {{shape: linear, span: {}, warmup: 0}}}}", span));
    return CohortTrainer({*bench.task, *bench.model, bench.params}, config)
        .train(std::span(clients).first(1), bench.params.values()[0], moment, {}, {})
        .rate_sum[0];
  };
  // Client 0 makes 5 steps per round: rates 1, 4/5, ..., 1/5; or, over two rounds, 10/10, ..., 6/10 and 5/10, ...,
  // 1/10.
  EXPECT_NEAR(rates("round", {.seed = 1, .round = 1, .rounds = 1}), 3.0, 1e-12);
  EXPECT_NEAR(rates("run", {.seed = 1, .round = 1, .rounds = 1}), 3.0, 1e-12) << "a run of one round learns";
  EXPECT_NEAR(rates("run", {.seed = 1, .round = 1, .rounds = 2}), 4.0, 1e-12);
  EXPECT_NEAR(rates("run", {.seed = 1, .round = 2, .rounds = 2}), 1.5, 1e-12) << "the last round learns";
}

TEST(CohortTrainer, AccumulatedBatchesEqualOneLargeBatch) {
  const Bench bench;
  const auto clients = bench.clients();
  const auto first = std::span(clients).first(1);
  const char* rest =
      "optimizer: sgd, learning_rate: 0.1, dropout: false, schedule: {shape: constant, warmup: 0}, clip: 0}";
  const auto large = bench.train(config_of(std::string("{batch_size: 40, ") + rest), first);
  const auto small = bench.train(config_of(std::string("{batch_size: 8, accumulate: 5, ") + rest), first);
  EXPECT_TRUE(torch::allclose(large.values, small.values, 1e-5, 1e-6));
}

TEST(CohortTrainer, ADivergingClientIsReportedAndAffectsNoOther) {
  const Bench bench;
  const auto clients = bench.clients();
  const TrainerConfig config = config_of("{batch_size: 8, learning_rate: 1e-3}");
  TrainWish poison;
  poison.adjust = [](const at::Tensor&, const at::Tensor& gradients) { gradients[0].fill_(std::nanf("")); };
  const TrainResult result = bench.train(config, clients, poison);
  EXPECT_THAT(result.failures[0], testing::HasSubstr("not a number"));
  EXPECT_EQ(result.failures[1], "");
  const TrainResult alone = bench.train(config, std::span(clients).subspan(1, 1));
  EXPECT_LT((alone.values[0] - result.values[1]).abs().mean().item<double>(), 1e-7);
}

// On a CPU the first two change something; on a GPU all of them.
TEST(CohortTrainer, EveryPieceCanBeSwitchedOff) {
  Bench bench;
  const bool gpu = at::globalContext().hasCUDA();
  if (gpu) {
    Params there(bench.model->layout(), {.device = at::kCUDA});
    there.values().copy_(bench.params.values());
    bench.params = there;
  }
  const auto clients = bench.clients();
  const at::Tensor start = bench.params.values()[0];
  const std::vector<std::pair<const char*, TrainerPieces>> without{{"all on", {}},
                                                                   {"used_words", {.used_words = false}},
                                                                   {"borrowed_start", {.borrowed_start = false}},
                                                                   {"recording", {.recording = false}},
                                                                   {"early_steps", {.early_steps = false}},
                                                                   {"read_ahead", {.read_ahead = false}}};
  constexpr TrainerPieces kNone{false, false, false, false, false};
  for (const char* yaml : {"clip: 0", "clip: 0, accumulate: 3, precision: bfloat16", "clip: 0, weight_decay: 0.1"}) {
    const TrainerConfig config = config_of(fmt::format("{{batch_size: 8, epochs: 2, learning_rate: 1e-3, {}}}", yaml));
    const auto train = [&](const TrainerPieces& pieces) {
      StepRecorders recorders;
      const CohortTrainer trainer({*bench.task, *bench.model, bench.params, nullptr, &recorders}, config, pieces);
      trainer.train(clients, start, {.seed = 1, .round = 2}, {.updates = true}, {});  // records, if supported
      return trainer.train(clients, start, {.seed = 1, .round = 2}, {.updates = true}, {});
    };
    const TrainResult plain = train(kNone);
    const double moved = plain.values.norm().item<double>();
    EXPECT_GT(moved, 0);
    for (const auto& [name, pieces] : without) {
      const TrainResult result = train(pieces);
      const double error = (result.values - plain.values).norm().item<double>();
      // A GPU adds in a different order each time.
      EXPECT_LE(error, gpu ? 0.1 * moved : 0) << name << ' ' << yaml;
      for (std::size_t c = 0; c < clients.size(); ++c) EXPECT_NEAR(result.loss[c], plain.loss[c], gpu ? 5e-3 : 0);
    }
  }
}

TEST(CohortTrainer, LeavingOutWordsThatAClientDoesNotHaveChangesNothing) {
  const Bench bench;
  const auto clients = bench.clients();
  const at::Tensor start = bench.params.values()[0];
  for (const char* yaml : {"{batch_size: 8, epochs: 2, learning_rate: 1e-3, clip: 0}",
                           "{batch_size: 8, optimizer: {name: sgd, momentum: 0.9}, learning_rate: 0.05, clip: 0}"}) {
    // Inspecting the gradients, or a proximal term, needs all of them.
    TrainWish whole, proximal;
    whole.adjust = [](const at::Tensor&, const at::Tensor&) {};
    proximal.adjust = [&](const at::Tensor& values, const at::Tensor& gradients) {
      gradients.add_(values, 0.5).sub_(start, 0.5);
    };
    const TrainResult used = bench.train(config_of(yaml), clients);
    EXPECT_TRUE(torch::equal(used.values, bench.train(config_of(yaml), clients, whole).values)) << yaml;
    const TrainResult near = bench.train(config_of(yaml), clients, {.proximal = 0.5});
    EXPECT_TRUE(torch::equal(near.values, bench.train(config_of(yaml), clients, proximal).values)) << yaml;
    EXPECT_FALSE(torch::equal(near.values, used.values));
  }
}

TEST(CohortTrainer, UpdatesAreTheValuesLessTheStart) {
  const Bench bench;
  const auto clients = bench.clients();
  for (const char* yaml :
       {"{batch_size: 8, learning_rate: 1e-3, clip: 0}", "{batch_size: 8, learning_rate: 1e-3, weight_decay: 0.1}"}) {
    const TrainResult values = bench.train(config_of(yaml), clients);
    const TrainResult updates = bench.train(config_of(yaml), clients, {.updates = true});
    EXPECT_TRUE(updates.values.equal(values.values - bench.params.values()[0])) << yaml;
    EXPECT_THAT(updates.finite, testing::ElementsAre(true, true, true));
  }
  TrainWish poison{.updates = true};
  poison.adjust = [](const at::Tensor&, const at::Tensor& gradients) { gradients[0].fill_(std::nanf("")); };
  const TrainResult poisoned = bench.train(config_of("{batch_size: 8, learning_rate: 1e-3}"), clients, poison);
  EXPECT_THAT(poisoned.finite, testing::ElementsAre(false, true, true));
}

// On a GPU: used rows of the word table only, the borrowed start, optimizer steps during the backward pass and fused
// value copies, compared with none of them.
TEST(CohortTrainer, OnAGpuFastPathsEqualPlainOnes) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  Bench bench;
  const at::Tensor start = bench.params.values()[0];
  Params there(bench.model->layout(), {.device = at::kCUDA});
  there.values().copy_(bench.params.values());
  bench.params = there;
  const auto clients = bench.clients();
  TrainWish plain{.updates = true}, poison{.updates = true};
  plain.adjust = [](const at::Tensor&, const at::Tensor&) {};  // needs all gradients at the end
  for (const char* precision : {"float32", "bfloat16"}) {
    for (const char* yaml : {"weight_decay: 0", "weight_decay: 0.1", "schedule: {shape: linear, warmup: 0.2}"}) {
      const TrainerConfig config = config_of(fmt::format(
          "{{batch_size: 8, epochs: 2, learning_rate: 1e-3, clip: 0, precision: {}, {}}}", precision, yaml));
      const TrainResult slow = bench.train(config, clients, plain);
      const TrainResult fast = bench.train(config, clients, {.updates = true});
      const TrainResult values = bench.train(config, clients);
      const double moved = slow.values.norm().item<double>();
      EXPECT_GT(moved, 0);
      const double room = std::string(precision) == "float32" ? 0.01 : 0.1;
      EXPECT_LT((fast.values - slow.values).norm().item<double>(), room * moved) << precision << ' ' << yaml;
      const at::Tensor changes = values.values - start.to(at::kCUDA);
      EXPECT_LT((changes - fast.values).norm().item<double>(), room * moved) << precision << ' ' << yaml;
      EXPECT_THAT(fast.finite, testing::ElementsAre(true, true, true));
      for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(fast.loss[c], slow.loss[c], 2e-3);

      const at::Tensor each = start.to(at::kCUDA) + torch::tensor({{0.0F}, {0.01F}, {-0.01F}}).to(at::kCUDA);
      const CohortTrainer trainer({*bench.task, *bench.model, there}, config);
      const TrainMoment moment{.seed = 1, .round = 2};
      const at::Tensor one = trainer.train(clients, each, moment, plain, {}).values;
      const at::Tensor other = trainer.train(clients, each, moment, {.updates = true}, {}).values;
      EXPECT_LT((other - one).norm().item<double>(), room * one.norm().item<double>()) << precision << ' ' << yaml;
    }
  }
  poison.adjust = [](const at::Tensor&, const at::Tensor& gradients) { gradients[0].fill_(std::nanf("")); };
  const TrainResult poisoned = bench.train(config_of("{batch_size: 8, learning_rate: 1e-3}"), clients, poison);
  EXPECT_THAT(poisoned.finite, testing::ElementsAre(false, true, true));
}

TEST(CohortTrainer, KeepsTheOptimizerInTheClientsState) {
  const Bench bench;
  const auto clients = bench.clients();
  std::vector<ClientState> states(3);
  const std::vector<ClientState*> places{&states[0], &states[1], &states[2]};
  const TrainerConfig config = config_of("{batch_size: 8}");
  bench.train(config, clients, {.keep_optimizer = true}, places);
  EXPECT_EQ(states[1].at("optimizer.steps").item<double>(), 3);
  bench.train(config, clients, {.keep_optimizer = true}, places);
  EXPECT_EQ(states[1].at("optimizer.steps").item<double>(), 6);
  EXPECT_EQ(states[1].at("optimizer.first").numel(), bench.model->layout().trainable_size());
}

TEST(CohortTrainer, TheGradientOfAllDataIsThatOfOneBatch) {
  const Bench bench;
  const auto clients = bench.clients();
  const CohortTrainer small({*bench.task, *bench.model, bench.params}, config_of("{batch_size: 7}"));
  const CohortTrainer large({*bench.task, *bench.model, bench.params}, config_of("{batch_size: 64}"));
  const at::Tensor start = bench.params.values()[0];
  const GradientResult a = small.gradient(clients, start, {}, true), b = large.gradient(clients, start, {}, true);
  EXPECT_TRUE(torch::allclose(a.gradients, b.gradients, 1e-4, 1e-6));
  EXPECT_NEAR(a.loss[2], b.loss[2], 1e-5);
  EXPECT_FALSE(small.gradient(clients, start, {}, false).gradients.defined());
}

// Every value store updates the shadow copy: with a stale one, training would diverge.
TEST(CohortTrainer, Bfloat16ComesCloseToFloat32) {
  const Bench bench;
  const auto clients = bench.clients();
  const at::Tensor start = bench.params.values()[0];
  for (const char* optimizer : {"sgd, learning_rate: 0.05", "{name: sgd, momentum: 0.9}, learning_rate: 0.01",
                                "adamw, learning_rate: 1e-3", "adafactor, learning_rate: 1e-3"}) {
    for (const bool keep : {false, true}) {
      std::vector<ClientState> memory(clients.size());
      std::vector<ClientState*> states;
      for (ClientState& state : memory) states.push_back(&state);
      const auto train = [&](const char* precision) {
        return bench.train(config_of(fmt::format("{{batch_size: 8, epochs: 3, clip: 0, optimizer: {}, precision: {}}}",
                                                 optimizer, precision)),
                           clients, {.keep_optimizer = keep}, states);
      };
      const TrainResult full = train("float32");
      for (ClientState& state : memory) state.clear();
      const TrainResult half = train("bfloat16");
      const double moved = (full.values - start).norm().item<double>();
      EXPECT_LT((half.values - full.values).norm().item<double>(), 0.1 * moved) << optimizer;
      EXPECT_FALSE(half.values.equal(full.values)) << optimizer;
      for (std::size_t c = 0; c < clients.size(); ++c) EXPECT_NEAR(half.loss[c], full.loss[c], 5e-3) << optimizer;
    }
  }
}

TEST(MetricMessages, ComeBack) {
  const MetricTotals totals{{"a", "b"}, {{1, 2, 3}, {4, 5, 6}}, 9};
  const MetricTotals back = totals_of(to_message(totals));
  EXPECT_EQ(back.names, totals.names);
  EXPECT_EQ(back.rows, totals.rows);
  EXPECT_EQ(back.examples, 9U);
  Message broken = to_message(totals);
  broken.texts["metric.names"] = "a\n";
  EXPECT_THROW(totals_of(broken), DataError);
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300}) {
    Message wild = to_message(totals);
    wild.tensors["metric.rows"][1][2] = value;
    EXPECT_THROW(totals_of(wild), DataError) << value;
    Message many = to_message(totals);
    many.numbers["metric.examples"] = value;
    EXPECT_THROW(totals_of(many), DataError) << value;
  }
}

}  // namespace
}  // namespace chorus::inline trainer
