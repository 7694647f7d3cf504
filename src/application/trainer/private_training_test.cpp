#include "application/trainer/private_training.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>

#include "application/peft/tuning.h"
#include "application/trainer/cohort_trainer.h"
#include "application/trainer/example_sum.h"
#include "application/trainer/tiny_classifier_test.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/base/stop_point.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

/// Everybody is drawn, and there is no noise: what is left is arithmetic. Refuses client 6.
class OpenGuard : public ExampleGuard {
 public:
  double noise() const override { return 1; }
  std::vector<std::string> charge(std::span<const ExampleWork> work, std::uint64_t) override {
    std::vector<std::string> refusals;
    for (const ExampleWork& each : work) {
      charged.push_back(each);
      refusals.emplace_back(each.client == 6 ? "its privacy budget is spent" : "");
    }
    return refusals;
  }
  std::vector<std::uint32_t> sample(std::size_t examples, double) const override {
    std::vector<std::uint32_t> all(examples);
    for (std::size_t i = 0; i < examples; ++i) all[i] = static_cast<std::uint32_t>(i);
    return all;
  }
  void draw(std::span<std::int64_t> noise) const override { std::fill(noise.begin(), noise.end(), 0); }
  std::string mark() const override { return ""; }
  double epsilon() const override { return 0; }
  PrivacyReport report() const override { return {}; }

  std::vector<ExampleWork> charged;
};

struct Network {
  std::string name, task;
  Formulation formulation;
  std::string config;  // without the vocabulary
  std::string tuning = "full";
};
void PrintTo(const Network& value, std::ostream* out) { *out << value.name << " " << value.tuning; }

const char* const kBert = R"("model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 64, "pad_token_id": 0)";
const char* const kRoberta =
    R"("model_type": "roberta", "hidden_size": 16, "num_hidden_layers": 1, "type_vocab_size": 1,
    "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 70, "pad_token_id": 0)";
const char* const kDistil = R"("model_type": "distilbert", "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32,
    "max_position_embeddings": 64, "pad_token_id": 0)";
const char* const kGpt2 = R"("model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64)";
const char* const kT5 = R"("model_type": "t5", "d_ff": 32, "d_kv": 8, "d_model": 16, "num_heads": 2, "num_layers": 1,
    "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 3)";
const char* const kBart = R"("model_type": "bart", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
    "max_position_embeddings": 64, "decoder_start_token_id": 2, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3)";
const char* const kBiLstm = R"("model_type": "bilstm", "embedding_size": 12, "hidden_size": 10, "num_layers": 2)";
const char* const kLstm = R"("model_type": "lstm", "embedding_size": 16, "hidden_size": 16, "num_layers": 1)";

std::vector<Network> networks() {
  constexpr auto kText = Formulation::kTextClassification;
  std::vector<Network> all{{"bert-seqcls", "text_classification", kText, kBert},
                           {"roberta-seqcls", "text_classification", kText, kRoberta},
                           {"distilbert-seqcls", "text_classification", kText, kDistil},
                           {"bilstm-seqcls", "text_classification", kText, kBiLstm},
                           {"bert-tokcls", "seq_tagging", Formulation::kSequenceTagging, kBert},
                           {"bert-qa", "span_extraction", Formulation::kSpanExtraction, kBert},
                           {"bert-mlm", "masked_lm", Formulation::kLanguageModel, kBert},
                           {"gpt2-lm", "causal_lm", Formulation::kLanguageModel, kGpt2},
                           {"lstm-lm", "causal_lm", Formulation::kLanguageModel, kLstm},
                           {"t5", "seq2seq", Formulation::kSeq2Seq, kT5},
                           {"bart", "seq2seq", Formulation::kSeq2Seq, kBart}};
  for (const std::string& tuning : Tunings::names()) {
    if (tuning == "full") continue;
    all.push_back({"bert-seqcls", "text_classification", kText, kBert, tuning});
    all.push_back({"roberta-seqcls", "text_classification", kText, kRoberta, tuning});
    all.push_back({"distilbert-seqcls", "text_classification", kText, kDistil, tuning});
    all.push_back({"gpt2-lm", "causal_lm", Formulation::kLanguageModel, kGpt2, tuning});
    if (tuning != "bias") all.push_back({"t5", "seq2seq", Formulation::kSeq2Seq, kT5, tuning});  // it has no biases
    all.push_back({"bart", "seq2seq", Formulation::kSeq2Seq, kBart, tuning});
  }
  return all;
}

class EveryNetwork : public testing::TestWithParam<Network> {};

// The issue's bar: per-example gradients equal single-example backward passes within 1e-5.
TEST_P(EveryNetwork, GradientsOfExamplesEqualBackwardPassesOfOne) {
  const Network& network = GetParam();
  const Dataset data = tiny::dataset(network.formulation, 12, 4);
  const auto words = tiny::tokenizer(data);
  TaskInput input = TaskInput::of(data, words);
  const Head head = Tasks::make(network.task, input)->head();
  ModelConfig config = ModelConfig::parse(
      fmt::format(R"({{{}, "vocab_size": {}}})", network.config, words->vocabulary_size()), network.name);
  if (!input.labels.empty()) config.set_labels(input.labels);
  input.model = config;
  Choice<Tasks> choice(network.task);
  ConfigVisitor visitor;
  choice.describe(visitor);
  for (ConfigField& field : visitor.fields()) {  // windows, so that an example has several rows
    if (field.name == "max_length") field.set({{"", ConfigScalar{std::int64_t{24}}}});
    if (field.name == "doc_stride") field.set({{"", ConfigScalar{std::int64_t{8}}}});
  }
  const auto task = choice.make(input);
  const auto model = make_model(config, head);
  Choice<Tunings>(network.tuning).make()->attach(*model, {});
  Params params(model->layout(), {});
  params.initialise(3);
  torch::manual_seed(5);
  params.values().add_(torch::randn_like(params.values()), 0.2);  // factors that begin at 0 have gradients, too

  const auto encoded = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;
  const TrainClient client{4, task->client_data(encoded, data.split(Split::kTrain)), 12};
  const std::vector<ExampleRows> examples = examples_of(client.data);
  ASSERT_EQ(examples.size(), 12U);
  const TrainerInput trainer{*task, *model, params};
  TrainerConfig training;
  training.dropout = false;
  ExampleGradients pass(trainer, training, params.values()[0], 16);
  const TrainMoment moment{.seed = 1, .round = 2};
  const at::Tensor gradients = pass.run({client, examples, moment, 7});
  ASSERT_EQ(gradients.size(0), 12);
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    Params alone = Params::copies_of(params, 1, true);
    const ClientRows rows{client.data.data.get(),
                          std::span(client.data.rows).subspan(examples[i].begin, examples[i].count), client.id};
    const TaskBatch batch = task->collate(std::span(&rows, 1), {.seed = 1, .round = 2, .epoch = 7});
    Dropout off;
    task->loss(model->forward(alone, batch.batch, off), batch).sum().backward();
    const at::Tensor difference = alone.grads()[0] - gradients[static_cast<std::int64_t>(i)];
    EXPECT_LT(difference.abs().max().item<double>(), 1e-5) << "example " << i;
    worst = std::max(worst, difference.abs().max().item<double>());
    largest = std::max(largest, alone.grads().abs().max().item<double>());
  }
  EXPECT_LT(worst, 1e-3 * largest) << "there is something to compare";
}

INSTANTIATE_TEST_SUITE_P(All, EveryNetwork, testing::ValuesIn(networks()), [](const auto& tested) {
  std::string name = tested.param.name + "_" + tested.param.tuning;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

struct PrivateBench : tiny::Classifier {
  Params params = [this] {
    Params result(model->layout(), {});
    result.initialise(3);
    return result;
  }();
  mutable OpenGuard guard;

  TrainResult train(const std::string& yaml, std::span<const TrainClient> cohort, const TrainWish& wish = {}) const {
    const TrainerInput input{*task, *model, params, nullptr, nullptr, &guard};
    return CohortTrainer(input, ConfigDocument::parse(yaml, "test").load<TrainerConfig>())
        .train(cohort, params.values()[0], {.seed = 1, .round = 2}, wish, {});
  }
  std::vector<TrainClient> clients() const { return {{5, client(0, 24), 24}, {6, client(24, 12), 12}}; }
};

// Samples of many sizes share few recordings; what fills a pass up has no part in the result.
TEST(ExampleGradients, OnAGpuRecordedPassesGiveWhatPlainPassesGive) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  const tiny::Classifier world;
  Params params(world.model->layout(), {.device = at::kCUDA});
  params.initialise(3);
  const TrainClient client{5, world.client(0, 40), 40};
  const std::vector<ExampleRows> examples = examples_of(client.data);
  const at::Tensor values = params.values()[0].clone();
  StepRecorders recorders;
  const TrainerInput plain_input{*world.task, *world.model, params},
      input{*world.task, *world.model, params, nullptr, &recorders};
  for (const auto precision : {TrainerConfig::Precision::kFloat32, TrainerConfig::Precision::kBFloat16}) {
    TrainerConfig config;
    config.precision = precision;
    for (int round = 0; round < 2; ++round) {  // the second takes the recorder of the first
      ExampleGradients plain(plain_input, config, values, 32), recorded(input, config, values, 32);
      for (std::uint64_t pass = 0; pass < 12; ++pass) {
        const auto some = std::span(examples).subspan(pass, 17 + pass);
        const at::Tensor expected = plain.run({client, some, {.seed = 1}, pass});
        const at::Tensor result = recorded.run({client, some, {.seed = 1}, pass});
        ASSERT_EQ(result.sizes(), expected.sizes());
        const double scale = expected.abs().max().item<double>();
        // What fills a pass up changes how a matmul is cut, and bfloat16 rounds to 1 / 256.
        const double near = precision == TrainerConfig::Precision::kBFloat16 ? 2e-2 : 1e-3;
        EXPECT_LT((result - expected).abs().max().item<double>(), near * scale) << "pass " << pass;
        EXPECT_GT(scale, 1e-4);
        values.add_(torch::randn_like(values), 0.01);
      }
    }
    const auto recorder =
        recorders.lend(params, 32, {.shadow = precision == TrainerConfig::Precision::kBFloat16, .examples = true});
    EXPECT_GT(recorder->launched(), 8);
  }
}

/// Samples that change from step to step and noise that does not, so that two trainings can be compared.
class KnownGuard final : public OpenGuard {
 public:
  std::vector<std::uint32_t> sample(std::size_t examples, double rate) const override {
    RandomStream stream({std::uint64_t{3}, "sample", calls_++});
    std::vector<std::uint32_t> drawn;
    for (std::size_t i = 0; i < examples; ++i) {
      if (stream.uniform() < rate) drawn.push_back(static_cast<std::uint32_t>(i));
    }
    return drawn;
  }
  void draw(std::span<std::int64_t> noise) const override { std::fill(noise.begin(), noise.end(), 1 << 14); }

 private:
  mutable std::uint64_t calls_ = 0;
};

// Whole trainings: sampling, clipping, noise, optimizer, with recorded passes and without.
TEST(PrivateTraining, OnAGpuRecordedTrainingGivesWhatPlainTrainingGives) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  for (const char* tuning : {"full", "lora"}) {
    const tiny::Classifier world;
    Choice<Tunings>(tuning).make()->attach(*world.model, {});
    Params params(world.model->layout(), {.device = at::kCUDA});
    params.initialise(3);
    const std::vector<TrainClient> clients{{5, world.client(0, 48), 48}, {7, world.client(48, 32), 32}};
    for (const bool bfloat16 : {false, true}) {
      const TrainerConfig config =
          ConfigDocument::parse(fmt::format("{{batch_size: 12, steps: 20, optimizer: sgd, learning_rate: 0.2, "
                                            "precision: {}, privacy: {{clip: 0.5, noise: 1, together: 10}}}}",
                                            bfloat16 ? "bfloat16" : "float32"),
                                "test")
              .load<TrainerConfig>();
      StepRecorders recorders;
      KnownGuard one, other;
      const CohortTrainer plain({*world.task, *world.model, params, nullptr, nullptr, &one}, config);
      const CohortTrainer recorded({*world.task, *world.model, params, nullptr, &recorders, &other}, config);
      at::Tensor start = params.values()[0].clone();
      for (std::uint64_t round = 1; round <= 3; ++round) {
        const TrainMoment moment{.seed = 1, .round = round};
        const at::Tensor expected = plain.train(clients, start, moment, {}, {}).values - start;
        const at::Tensor result = recorded.train(clients, start, moment, {}, {}).values - start;
        EXPECT_LT((result - expected).norm().item<double>(), (bfloat16 ? 5e-2 : 1e-3) * expected.norm().item<double>())
            << tuning << ", bfloat16 " << bfloat16 << ", round " << round;
        EXPECT_GT(expected.norm().item<double>(), 1e-2);
        start = start + expected.mean(0);
      }
      const auto recorder = recorders.lend(params, 10, {.shadow = bfloat16, .examples = true});
      EXPECT_GT(recorder->launched(), 60) << tuning;
    }
  }
}

TEST(PrivateTraining, WithoutNoiseAndClippingIsOrdinaryTraining) {
  const PrivateBench bench;
  const auto clients = bench.clients();
  const std::string rest =
      "batch_size: 24, steps: 3, optimizer: sgd, learning_rate: 0.1, dropout: false, schedule: {shape: constant, "
      "warmup: 0}, clip: 0";
  const auto one = std::span(clients).first(1);
  const TrainResult plain = bench.train("{" + rest + "}", one);
  const TrainResult hidden = bench.train("{" + rest + ", privacy: {clip: 1000, noise: 1, together: 7}}", one);
  const double moved = (plain.values[0] - bench.params.values()[0]).abs().max().item<double>();
  // The grid is 1000 / 2^24 of a gradient.
  EXPECT_LT((plain.values - hidden.values).abs().max().item<double>(), 3e-5 + 1e-3 * moved);
  EXPECT_GT(moved, 1e-3);
  EXPECT_TRUE(std::isnan(hidden.loss[0])) << "the loss is not released";
}

TEST(PrivateTraining, EndsAtTheNextStepWhenNobodyWantsTheResult) {
  const PrivateBench bench;
  std::atomic<bool> stop = false;
  int steps = 0;
  TrainWish wish;
  wish.adjust = [&](const at::Tensor&, const at::Tensor&) { stop = ++steps == 2; };
  const StopScope scope(stop);
  EXPECT_THROW((void)bench.train("{batch_size: 6, epochs: 2, privacy: {clip: 1, noise: 1}}", bench.clients(), wish),
               Interrupted);
  EXPECT_EQ(steps, 2);
}

TEST(PrivateTraining, ChargesEveryClientAndRefusesOneWithoutBudget) {
  const PrivateBench bench;
  const auto clients = bench.clients();
  const TrainResult result =
      bench.train("{batch_size: 4, epochs: 2, learning_rate: 1e-3, privacy: {noise: 1}}", clients, {.updates = true});
  ASSERT_EQ(bench.guard.charged.size(), 2U);
  EXPECT_EQ(bench.guard.charged[0].steps, 12);
  EXPECT_NEAR(bench.guard.charged[0].sampling_rate, 4.0 / 24, 1e-12);
  EXPECT_EQ(bench.guard.charged[1].steps, 6);
  EXPECT_EQ(result.failures[0], "");
  EXPECT_THAT(result.failures[1], testing::HasSubstr("budget"));
  EXPECT_GT(result.values[0].abs().max().item<double>(), 0);
  EXPECT_EQ(result.values[1].abs().max().item<double>(), 0);
  EXPECT_EQ(result.steps[0], 12);
}

TEST(PrivateTraining, RefusesWhatWouldBeReleasedWithoutNoise) {
  const PrivateBench bench;
  const auto clients = bench.clients();
  const TrainerInput input{*bench.task, *bench.model, bench.params, nullptr, nullptr, &bench.guard};
  const CohortTrainer trainer(input, ConfigDocument::parse("{privacy: {noise: 1}}", "test").load<TrainerConfig>());
  EXPECT_THROW(trainer.gradient(clients, bench.params.values()[0], {}, true), ConfigError);
  EXPECT_THROW(trainer.learner(clients, bench.params.values()[0], {}, {}, nullptr), ConfigError);
}

// Sensitivity: one example more, whatever it is, moves the integers by at most the norm that the noise was made for.
TEST(ExampleSum, OneExampleMovesItByAtMostTheBound) {
  torch::manual_seed(11);
  for (int run = 0; run < 200; ++run) {
    const double clip = std::pow(10.0, run % 5 - 2), noise = 0.3 + run % 7;
    const std::int64_t columns = 1 + run * 17;
    const at::Tensor others = torch::randn({3, columns}) * std::pow(10.0, run % 9 - 4);
    at::Tensor mine = torch::randn({1, columns}) * std::pow(10.0, run % 11 - 3);
    if (run % 20 == 19) mine.fill_(std::numeric_limits<float>::infinity());
    ExampleSum without(columns, at::kCPU, {clip, noise}), with(columns, at::kCPU, {clip, noise});
    without.add(others.clone());
    with.add(torch::cat({others, mine}));
    const double moved = (with.total() - without.total()).to(at::kDouble).norm().item<double>();
    EXPECT_LE(moved, ExampleGuard::kUnits / noise) << run;
    if (run % 20 != 19 && mine.norm().item<double>() > clip && columns < 500) {
      EXPECT_GT(moved, 0.99 * ExampleGuard::kUnits / noise) << "clipped, not lost";
    }
    // The way of a GPU, where rows are not side by side.
    ExampleSum there(columns, at::kCPU, {clip, noise});
    there.add(torch::cat({others, mine}).t().contiguous().t());
    EXPECT_LE((there.total() - with.total()).abs().max().item<double>(), 1e-5 * ExampleGuard::kUnits / noise + 1);
    EXPECT_LE(there.release(torch::zeros({columns}, at::kLong)).norm().item<double>(), 4 * clip * (1 + 1e-6));
  }
}

}  // namespace
}  // namespace chorus::inline trainer
