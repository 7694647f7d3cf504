#include "application/trainer/cohort_learner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "application/tasks/evaluate.h"
#include "application/trainer/cohort_trainer.h"
#include "application/trainer/tiny_classifier_test.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Three clients of a tiny classifier, and a public set that is none of theirs.
struct LearnerWorld : tiny::Classifier {
  LearnerWorld() { params.initialise(3); }

  Params params = Params(model->layout(), {});
  TrainMoment moment{.seed = 1, .round = 2, .rounds = 4};
  std::vector<TrainClient> clients{{5, client(0, 40), 40}, {6, client(40, 20), 20}, {7, client(60, 9), 9}};
  std::shared_ptr<const PublicTexts> public_set = std::make_shared<PublicTexts>(PublicTexts{client(69, 11)});

  static TrainerConfig config_of(const std::string& yaml) {
    return ConfigDocument::parse("{batch_size: 8, learning_rate: 1e-3, " + yaml + "}", "test").load<TrainerConfig>();
  }
  CohortTrainer trainer(const std::string& yaml, const TrainerPieces& pieces = {}) const {
    return CohortTrainer({*task, *model, params}, config_of(yaml), pieces);
  }
  std::unique_ptr<Learner> learner(const std::string& yaml, const LearnerWish& wish = {}) const {
    return trainer(yaml).learner(clients, start(), moment, wish, public_set);
  }
  at::Tensor start() const { return params.values()[0]; }
  /// Elements of one parameter.
  FlatRange range(const char* name) const {
    const ParamSpec& spec = model->layout()[*model->layout().find(name)];
    return {spec.offset, spec.offset + spec.count};
  }
};

TEST(CohortLearner, SeveralCallsDoWhatOneTrainDoes) {
  const LearnerWorld world;
  for (const char* yaml : {"steps: 7", "steps: 6, optimizer: {name: sgd, momentum: 0.9}, weight_decay: 0.1",
                           "steps: 3, accumulate: 2, schedule: {span: run}", "steps: 6, precision: bfloat16",
                           "steps: 6, optimizer: adafactor"}) {
    // The whole table's gradient in the norm, as a learner has it: clipping rounds otherwise.
    const TrainResult once = world.trainer(yaml, {.used_words = false})
                                 .train(world.clients, world.start(), world.moment, {.proximal = 0.1}, {});
    const auto learner = world.learner(yaml, {.train = {.proximal = 0.1}});
    const auto steps = static_cast<std::int64_t>(once.steps[0]);
    double rates = 0, loss = 0;
    for (const std::int64_t part : {std::int64_t{1}, std::int64_t{0}, steps - 1}) {
      const LearnResult result = learner->train(part);
      EXPECT_THAT(result.failures, ElementsAre("", "", ""));
      rates += result.rate_sum[1];
      loss += result.loss[1] * static_cast<double>(part) / static_cast<double>(steps);
    }
    EXPECT_TRUE(learner->values().equal(once.values)) << yaml;
    EXPECT_FALSE(learner->values()[0].equal(world.start()));
    EXPECT_NEAR(rates, once.rate_sum[1], 1e-12);
    EXPECT_NEAR(loss, once.loss[1], 1e-6);
  }
}

// A GPU computes in bfloat16 what it trains so.
TEST(CohortLearner, PredictsInFloat32InAnyPrecision) {
  for (const bool gpu : {false, true}) {
    if (gpu && !at::globalContext().hasCUDA()) continue;
    LearnerWorld world;
    if (gpu) {
      Params there(world.model->layout(), {.device = at::kCUDA});
      there.values().copy_(world.params.values());
      world.params = there;
    }
    for (const char* precision : {"float32", "bfloat16"}) {
      const auto learner = world.learner(fmt::format("steps: 2, precision: {}", precision));
      learner->train(2);
      for (const at::Tensor& logits : {learner->predict(std::vector<std::uint32_t>{0, 3}),
                                       learner->predict_with_dropout(std::vector<std::uint32_t>{0, 3})}) {
        EXPECT_EQ(logits.scalar_type(), at::kFloat) << precision << (gpu ? " on a GPU" : "");
      }
    }
  }
}

TEST(CohortLearner, PredictsWhatAnEvaluationAnswers) {
  const LearnerWorld world;
  const auto learner = world.learner("steps: 2");
  learner->train(2);
  std::vector<std::uint32_t> rows(world.public_set->rows.size());
  std::iota(rows.begin(), rows.end(), 0U);
  const at::Tensor logits = learner->predict(rows);
  ASSERT_EQ(logits.sizes(), (at::IntArrayRef{3, 11, 3}));
  EXPECT_FALSE(logits.requires_grad());
  const auto examples = world.data.split(Split::kTrain).subspan(69, 11);
  for (std::int64_t c = 0; c < 3; ++c) {
    const Params mine = Params::copies_of_start(world.params, 1, false, learner->values()[c]);
    const Evaluation evaluation =
        evaluate(*world.task, *world.model, mine, {world.data, world.encoded, examples}, {.predictions = true});
    std::vector<ClientRows> cohort{{world.encoded.get(), world.public_set->rows}};
    TaskBatch batch = world.task->collate(cohort);
    Dropout off;
    EXPECT_TRUE(torch::allclose(logits[c], world.model->forward(mine, batch.batch, off).logits[0], 1e-5, 1e-6));
    for (std::int64_t i = 0; i < 11; ++i) {
      EXPECT_EQ(logits[c][i].argmax().item<std::int64_t>(), evaluation.predictions[static_cast<std::size_t>(i)].label);
    }
  }
  // Row by row, and for given values.
  const std::vector<std::uint32_t> two{4, 9};
  EXPECT_TRUE(torch::allclose(learner->predict(two)[1], logits[1].index_select(0, torch::tensor({4, 9})), 1e-5, 1e-6));
}

TEST(CohortLearner, OneHotTargetsFitAsLabelsDo) {
  const LearnerWorld world;
  const std::vector<std::uint32_t> rows{0, 3, 7, 8};
  std::vector<std::int64_t> labels;
  for (const std::uint32_t row : rows) labels.push_back(world.encoded->label(world.public_set->rows[row]));
  const at::Tensor hard = torch::tensor(labels, at::kLong);
  const auto own = world.learner("clip: 0, optimizer: sgd"), given = world.learner("clip: 0, optimizer: sgd"),
             soft = world.learner("clip: 0, optimizer: sgd"), other = world.learner("clip: 0, optimizer: sgd");
  own->fit(rows, {});
  const LearnResult fitted = given->fit(rows, {.labels = hard});
  soft->fit(rows, {.probabilities = torch::one_hot(hard, 3).to(at::kFloat)});
  other->fit(rows, {.labels = (hard + 1).remainder(3).unsqueeze(0).repeat({3, 1})});
  EXPECT_THAT(fitted.failures, ElementsAre("", "", ""));
  EXPECT_GT(fitted.loss[2], 0);
  EXPECT_TRUE(own->values().equal(given->values()));
  EXPECT_TRUE(torch::allclose(given->values(), soft->values(), 1e-6, 1e-7));
  EXPECT_FALSE(torch::allclose(given->values(), other->values(), 1e-6, 1e-7));
  // Fitting one's own answers at any temperature teaches nothing.
  const auto still = world.learner("dropout: false, clip: 0, optimizer: sgd");
  for (const double temperature : {1.0, 2.0}) {
    const at::Tensor answers = torch::softmax(still->predict(rows) / temperature, -1);
    const LearnResult nothing = still->fit(rows, {.probabilities = answers, .temperature = temperature});
    EXPECT_NEAR(nothing.loss[0], 0, 1e-5);
    EXPECT_LT((still->values() - world.start()).abs().max().item<double>(), 1e-6);
  }
}

TEST(CohortLearner, FittingKeepsThePlaceInTheDataAndMovesTheSchedule) {
  const LearnerWorld world;
  const std::string yaml = "clip: 0, optimizer: sgd, schedule: {shape: linear, warmup: 0}";
  const auto learner = world.learner(yaml, {.steps = 4});
  EXPECT_NEAR(learner->train(1).rate_sum[0], 1e-3, 1e-12);
  EXPECT_NEAR(learner->fit(std::vector<std::uint32_t>{0}, {}).rate_sum[0], 0.75e-3, 1e-12);
  const at::Tensor before = learner->values().clone();
  EXPECT_NEAR(learner->train(1).rate_sum[0], 0.5e-3, 1e-12);
  // The second batch of the data, whatever was fitted: one more train from there with the same rate is the same step.
  const auto reference = world.learner(yaml, {.steps = 3});
  reference->train(1);
  reference->set_values(before);
  EXPECT_NEAR(reference->train(1).rate_sum[0], 1e-3 * 2 / 3, 1e-12);
  const at::Tensor step = learner->values() - before, same = (reference->values() - before) * 0.75;
  EXPECT_TRUE(torch::allclose(step, same, 1e-3, 1e-7));
  EXPECT_GT(step.abs().max().item<double>(), 1e-6);
}

TEST(CohortLearner, ClientsThatRemainGoOnAsIfNothingHappened) {
  const LearnerWorld world;
  for (const char* yaml : {"clip: 0", "clip: 0, precision: bfloat16"}) {
    const auto all = world.learner(yaml), some = world.learner(yaml);
    all->train(2);
    some->train(2);
    const std::vector<std::size_t> remaining{0, 2};
    some->retain(remaining);
    ASSERT_EQ(some->values().size(0), 2);
    EXPECT_TRUE(some->values()[1].equal(all->values()[2]));
    const std::vector<std::uint32_t> rows{1, 2};
    all->train(2);
    EXPECT_THAT(some->train(2).failures, ElementsAre("", ""));
    all->fit(rows, {});
    some->fit(rows, {});
    // Other batch sizes of the matmuls round otherwise.
    EXPECT_LT((some->values()[1] - all->values()[2]).abs().mean().item<double>(), 1e-6) << yaml;
    EXPECT_LT((some->values()[0] - all->values()[0]).abs().mean().item<double>(), 1e-6) << yaml;
    EXPECT_GT((some->values()[1] - all->values()[1]).abs().mean().item<double>(), 1e-4) << yaml;
  }
}

TEST(CohortLearner, AClientWithoutRowsFitsAndPredicts) {
  LearnerWorld world;
  world.clients[2].data.rows.clear();
  const auto learner = world.learner("clip: 0");
  const LearnResult trained = learner->train(1);
  EXPECT_THAT(trained.failures, ElementsAre("", "", HasSubstr("no rows")));
  EXPECT_THAT(trained.steps, ElementsAre(1, 1, 0));
  EXPECT_TRUE(learner->values()[2].equal(world.start()));
  const std::vector<std::uint32_t> rows{0, 1};
  EXPECT_THAT(learner->fit(rows, {}).failures, ElementsAre("", "", ""));
  EXPECT_TRUE(torch::isfinite(learner->values()).all().item<bool>());
  EXPECT_FALSE(learner->values()[2].equal(world.start()));
  const LearnerWorld fresh;
  const auto alone = fresh.trainer("clip: 0").learner(std::span(world.clients).subspan(2), fresh.start(), fresh.moment,
                                                      {}, fresh.public_set);
  alone->train(1);
  alone->fit(rows, {});
  // The same first step, though the schedule of the others is one step ahead.
  EXPECT_GT((alone->values()[0] - fresh.start()).abs().max().item<double>(), 0);
}

TEST(CohortLearner, FrozenElementsStayAsTheyAre) {
  const LearnerWorld world;
  const std::vector<FlatRange> frozen{world.range("classifier.weight"),
                                      world.range("bert.encoder.layer.0.attention.self.query.weight")};
  const auto is_start = [&](const at::Tensor& values, const FlatRange& range) {
    const std::int64_t count = range.end - range.begin;
    return values.narrow(1, range.begin, count).equal(world.start().narrow(0, range.begin, count).expand({3, count}));
  };
  for (const char* yaml : {"steps: 3, weight_decay: 0.1, decay_matrices_only: false",
                           "steps: 3, optimizer: {name: sgd, momentum: 0.9}, precision: bfloat16, weight_decay: 0.1"}) {
    const TrainResult trained =
        world.trainer(yaml).train(world.clients, world.start(), world.moment, {.frozen = frozen}, {});
    const auto learner = world.learner(yaml, {.train = {.frozen = frozen}});
    learner->train(3);
    EXPECT_TRUE(learner->values().equal(trained.values)) << yaml;
    learner->fit(std::vector<std::uint32_t>{2, 3}, {});
    const TrainResult free = world.trainer(yaml).train(world.clients, world.start(), world.moment, {}, {});
    for (const FlatRange& range : frozen) {
      EXPECT_TRUE(is_start(trained.values, range)) << yaml;
      EXPECT_TRUE(is_start(learner->values(), range)) << yaml;
      EXPECT_FALSE(is_start(free.values, range)) << yaml;
    }
    EXPECT_FALSE(is_start(trained.values, world.range("classifier.bias")));
  }
}

// A short gradient step of length d lowers the loss it is on by d^2 / rate.
TEST(CohortLearner, VotesRewardsAndScoresAreTheLossesTheyShouldBe) {
  const LearnerWorld world;
  const std::vector<std::uint32_t> rows{0, 3, 7, 8};
  const at::Tensor mixed = torch::linspace(-1, 2, 12, at::kFloat).view({4, 3}).roll(5);
  const std::map<std::string, std::pair<Targets, std::function<at::Tensor(const at::Tensor&)>>> kinds{
      {"votes",
       {{.votes = mixed}, [&](const at::Tensor& z) { return -(mixed * torch::log_softmax(z, -1)).sum(-1).mean(-1); }}},
      {"rewards",
       {{.rewards = mixed}, [&](const at::Tensor& z) { return -(mixed * torch::softmax(z, -1)).sum(-1).mean(-1); }}},
      {"scores", {{.scores = mixed}, [&](const at::Tensor& z) { return (z - mixed).square().mean(-1).mean(-1); }}}};
  for (const auto& [name, kind] : kinds) {
    const auto learner = world.learner("clip: 0, optimizer: sgd, dropout: false, schedule: {shape: constant}");
    const at::Tensor before = kind.second(learner->predict(rows)), from = learner->values().clone();
    const LearnResult result = learner->fit(rows, kind.first);
    EXPECT_NEAR(result.loss[1], before[1].item<double>(), 1e-5) << name;
    const at::Tensor fallen = before - kind.second(learner->predict(rows));
    const at::Tensor expected = (learner->values() - from).square().sum(1) / result.rate_sum[0];
    EXPECT_TRUE(torch::allclose(fallen, expected, 0.05, 1e-6)) << name << fallen << expected;
    EXPECT_GT(fallen.min().item<double>(), 1e-6) << name;
  }
  // Two kinds add up, and one vote for a label is the label.
  const at::Tensor labels = torch::tensor({0, 2, 1, 1}, at::kLong);
  const auto vote = world.learner("clip: 0, optimizer: sgd"), label = world.learner("clip: 0, optimizer: sgd"),
             both = world.learner("clip: 0, optimizer: sgd");
  vote->fit(rows, {.votes = torch::one_hot(labels, 3).to(at::kFloat) * 2});
  label->fit(rows, {.labels = labels});
  both->fit(rows, {.labels = labels, .votes = torch::one_hot(labels, 3).to(at::kFloat)});
  EXPECT_TRUE(torch::allclose(vote->values() - world.start(), 2 * (label->values() - world.start()), 1e-3, 1e-6));
  EXPECT_TRUE(torch::allclose(vote->values(), both->values(), 1e-5, 1e-7));
}

TEST(CohortLearner, AProbeMeasuresAndChangesNothing) {
  const LearnerWorld world;
  const std::string yaml = "clip: 0, optimizer: sgd, dropout: false, schedule: {shape: constant}";
  const auto learner = world.learner(yaml);
  const ProbeResult probe = learner->probe(0, {.gradients = true});
  EXPECT_TRUE(learner->values().equal(world.start().unsqueeze(0).expand({3, -1})));
  const LearnResult step = learner->train(1);
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(probe.loss[c], step.loss[c], 1e-6);
  const at::Tensor expected = world.start() - probe.gradients * step.rate_sum[0];
  EXPECT_TRUE(torch::allclose(expected, learner->values(), 1e-4, 1e-6));
  EXPECT_FALSE(learner->probe(1, {}).gradients.defined());
  // Dropout is drawn anew each time.
  const auto noisy = world.learner("clip: 0");
  EXPECT_NE(noisy->probe(0, {.dropout = true}).loss[0], noisy->probe(0, {.dropout = true}).loss[0]);
  EXPECT_EQ(noisy->probe(0, {}).loss[0], noisy->probe(0, {}).loss[0]);
  const std::vector<std::uint32_t> rows{0, 1};
  EXPECT_FALSE(noisy->predict_with_dropout(rows).equal(noisy->predict_with_dropout(rows)));
  EXPECT_TRUE(learner->predict_with_dropout(rows).equal(learner->predict(rows)));
}

TEST(CohortLearner, ARenewedLearnerForgetsItsOptimizerAndItsSchedule) {
  const LearnerWorld world;
  const std::vector<std::uint32_t> rows{0, 1, 2};
  const std::string yaml = "clip: 0, dropout: false, schedule: {shape: linear, warmup: 0}";
  const auto learner = world.learner(yaml, {.steps = 4});
  learner->train(2);
  const auto fresh = world.trainer(yaml).learner(world.clients, learner->values().clone(), world.moment, {.steps = 1},
                                                 world.public_set);
  learner->renew(1);
  const LearnResult one = learner->fit(rows, {}), other = fresh->fit(rows, {});
  EXPECT_TRUE(torch::allclose(learner->values(), fresh->values(), 1e-6, 1e-8));
  EXPECT_EQ(one.rate_sum, other.rate_sum);
}

TEST(CohortLearner, TagsArePredictedForWords) {
  const Dataset data = tiny::dataset(Formulation::kSequenceTagging);
  const auto words = tiny::tokenizer(data);
  const auto task = Tasks::make("seq_tagging", TaskInput::of(data, words));
  const auto model = make_model(tiny::model_config(task->head(), *words, task->labels()), task->head());
  const auto encoded = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;
  Params params(model->layout(), {});
  params.initialise(3);
  const auto examples = data.split(Split::kTrain).first(6);
  const auto set = std::make_shared<PublicTexts>(PublicTexts{task->client_data(encoded, examples)});
  const std::vector<TrainClient> clients{{0, *set, 6}};
  const auto learner = CohortTrainer({*task, *model, params}, LearnerWorld::config_of("clip: 0, dropout: false"))
                           .learner(clients, params.values()[0], {}, {}, set);
  const std::vector<std::uint32_t> rows{4, 1};
  const auto in_all = static_cast<std::int64_t>(data.words(examples[4]).size() + data.words(examples[1]).size());
  const at::Tensor logits = learner->predict(rows);
  EXPECT_EQ(logits.size(1), in_all);
  EXPECT_EQ(answer_counts(*model, *set)[4], static_cast<std::int64_t>(data.words(examples[4]).size()));
  // The tag of a word is that of its first piece.
  const Evaluation evaluation =
      evaluate(*task, *model, params, {data, encoded, examples.subspan(4, 1)}, {.predictions = true});
  const at::Tensor best = logits[0].argmax(-1);
  for (std::size_t w = 0; w < evaluation.predictions[0].tags.size(); ++w) {
    EXPECT_EQ(best[static_cast<std::int64_t>(w)].item<std::int64_t>(), evaluation.predictions[0].tags[w]);
  }
  EXPECT_THAT(learner->fit(rows, {.labels = best}).failures, ElementsAre(""));
}

TEST(CohortLearner, AnswersToQuestionsArePredictedForWords) {
  const Dataset data = tiny::dataset(Formulation::kSpanExtraction);
  const auto words = tiny::tokenizer(data);
  const auto task = Tasks::make("span_extraction", TaskInput::of(data, words));
  const auto model = make_model(tiny::model_config(task->head(), *words, {}), task->head());
  const auto encoded = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;
  Params params(model->layout(), {});
  params.initialise(3);
  const auto examples = data.split(Split::kTrain).first(6);
  const auto set = public_texts({*task, task->client_data(encoded, examples)});
  ASSERT_EQ(set->rows.size(), 6U) << "one window each";
  std::size_t most = 0;
  for (const std::uint32_t row : set->rows) most = std::max(most, context_words(*encoded, row).size());
  EXPECT_EQ(set->choices, static_cast<std::int64_t>(most) + 1) << "no padding but for shorter contexts";
  const std::vector<TrainClient> clients{{0, *set, 6}};
  const auto learner =
      CohortTrainer({*task, *model, params}, LearnerWorld::config_of("clip: 0, dropout: false, optimizer: sgd"))
          .learner(clients, params.values()[0], {}, {}, set);
  EXPECT_THAT(answer_counts(*model, *set), ElementsAre(2, 2, 2, 2, 2, 2));
  const std::vector<std::uint32_t> rows{4, 1};
  const at::Tensor logits = learner->predict(rows);
  ASSERT_EQ(logits.sizes(), (at::IntArrayRef{1, 4, set->choices}));
  // The words are those between spaces, and the others get no probability.
  std::string_view text = data.text(examples[4]);
  const auto count = static_cast<std::int64_t>(context_words(*encoded, set->rows[4]).size());
  EXPECT_EQ(count, std::count(text.begin(), text.end(), ' ') + 1);
  EXPECT_GT(torch::softmax(logits[0], -1)[0].narrow(0, 0, count + 1).sum().item<double>(), 1 - 1e-6);
  // A step towards one word makes it more probable.
  const at::Tensor wanted = torch::tensor({2, 3, 1, 0}, at::kLong);
  const auto loss = [&] { return torch::cross_entropy_loss(learner->predict(rows)[0], wanted).item<double>(); };
  const double before = loss();
  const LearnResult step = learner->fit(rows, {.labels = wanted});
  EXPECT_NEAR(step.loss[0], before, 1e-5);
  EXPECT_LT(loss(), before);
}

TEST(CohortLearner, RefusesTargetsThatATaskHasNone) {
  const Dataset data = tiny::dataset(Formulation::kPairRegression);
  const auto words = tiny::tokenizer(data);
  const auto task = Tasks::make("pair_regression", TaskInput::of(data, words));
  const auto model = make_model(tiny::model_config(task->head(), *words, {"score"}), task->head());
  const auto encoded = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;
  Params params(model->layout(), {});
  params.initialise(3);
  const auto set =
      std::make_shared<PublicTexts>(PublicTexts{task->client_data(encoded, data.split(Split::kTrain).first(8))});
  const std::vector<TrainClient> clients{{0, *set, 8}};
  const auto learner = CohortTrainer({*task, *model, params}, LearnerWorld::config_of("clip: 0"))
                           .learner(clients, params.values()[0], {}, {}, set);
  const std::vector<std::uint32_t> rows{0, 1};
  EXPECT_EQ(learner->predict(rows).sizes(), (at::IntArrayRef{1, 2, 1}));
  EXPECT_THAT(learner->fit(rows, {}).failures, ElementsAre("")) << "its own scores";
  EXPECT_THROW(learner->fit(rows, {.probabilities = torch::ones({2, 1})}), ConfigError);
  EXPECT_THROW(learner->fit(rows, {.votes = torch::ones({2, 1})}), ConfigError);
  EXPECT_THAT(learner->fit(rows, {.scores = torch::ones({2, 1})}).failures, ElementsAre(""));
}

}  // namespace
}  // namespace chorus::inline trainer
