#include "apps/experiment/task_scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "application/trainer/client_pool.h"
#include "apps/experiment/experiment.h"
#include "apps/experiment/tiny_experiment_test.h"
#include "core/base/error.h"
#include "core/device/torch_runtime.h"
#include "infrastructure/federation/local_federation.h"

namespace chorus::inline experiment {
namespace {

class TaskScorerTest : public testing::Test {
 protected:
  TaskScorer::Input input() {
    return {experiment.task(),
            experiment.task_model().network(),
            {experiment.data(), experiment.test(), experiment.shared_test()},
            clients};
  }
  /// Far from the initial values, so that predictions differ.
  at::Tensor model() const {
    const at::Tensor start = experiment.params().values()[0];
    return start + torch::sin(torch::arange(start.numel(), at::kFloat)) * 0.5;
  }
  /// The reply of a client that holds these test examples.
  Message totals(std::size_t begin, std::size_t count) const {
    const EvaluationSet own{experiment.data(), experiment.test(),
                            std::span(experiment.shared_test()).subspan(begin, count)};
    const Evaluation evaluation = evaluate(experiment.task(), experiment.model(), experiment.params(), own);
    return to_message(evaluation.metric->totals());
  }

  static LocalFederationInput with_examples(std::vector<double> examples) {
    LocalFederationInput result;
    result.roster = Roster::of_sizes(examples);
    return result;
  }

  const LocalFederation clients{with_examples({5, 1, 4, 2, 3, 10, 9, 8, 7, 6})};
  const Experiment experiment{tiny_experiment({"tuning.name=pfeiffer", "tuning.width=8"})};
};

TEST_F(TaskScorerTest, ScoresAreThoseOfAnEvaluationOnTheTestExamples) {
  TaskScorer scorer(input());
  const at::Tensor values = model(), before = values.clone();
  Params params = Params::copies_of_start(experiment.params(), 1, false, values);
  const Evaluation expected = evaluate(experiment.task(), experiment.model(), params,
                                       {experiment.data(), experiment.test(), experiment.shared_test()});
  EXPECT_EQ(scorer.score(values, {}), expected.scores);
  EXPECT_TRUE(torch::equal(values, before));
  EXPECT_EQ(expected.scores.at("examples"), 60);
  EXPECT_NE(scorer.score(experiment.params().values()[0], {}).at("eval_loss"), expected.scores.at("eval_loss"));
}

TEST_F(TaskScorerTest, AVariantIsScoredWithItsPartOfTheModel) {
  TaskScorer scorer(input());
  const Variant top{1, 8};
  at::Tensor values = model();
  const Scores whole = scorer.score(values, {}), part = scorer.score(values, top);
  EXPECT_NE(whole.at("eval_loss"), part.at("eval_loss"));
  // Parameters outside the variant have no influence.
  at::Tensor mask = torch::ones({values.numel()}, at::kBool);
  mask.index_put_({experiment.task_model().network().places(top)}, false);
  EXPECT_GT(mask.sum().item<std::int64_t>(), 0);
  values.masked_fill_(mask, 7);
  EXPECT_EQ(scorer.score(values, top), part);
}

// AdaFL decides by these scores, so the number of cores must not change them.
TEST_F(TaskScorerTest, ScoresDoNotDependOnThreads) {
  const at::Tensor values = model();
  TaskScorer::Input one = input();
  one.workers = 1;
  const Scores expected = TaskScorer(one).score(values, {});
  for (const int workers : {0, 2, 3, 7}) {
    TaskScorer::Input many = input();
    many.workers = workers;
    EXPECT_EQ(TaskScorer(many).score(values, {}), expected) << workers;
  }
  for (const int threads : {1, 2}) {
    const TorchThreads scope(threads);
    EXPECT_EQ(TaskScorer(one).score(values, {}), expected) << threads;
  }
}

TEST_F(TaskScorerTest, BFloat16IsCloseToFloat32ButDiffers) {
  TaskScorer::Input half = input();
  half.precision = TrainerConfig::Precision::kBFloat16;
  const at::Tensor values = model();
  const double exact = TaskScorer(input()).score(values, {}).at("eval_loss");
  const double rounded = TaskScorer(half).score(values, {}).at("eval_loss");
  EXPECT_NE(exact, rounded);
  EXPECT_NEAR(exact, rounded, 0.02 * std::abs(exact));
}

TEST_F(TaskScorerTest, PooledTotalsAreThoseOfAllExamplesTogether) {
  const TaskScorer scorer(input());
  const Scores all = scorer.pooled({{0, totals(0, 60)}});
  const Scores parts = scorer.pooled({{0, totals(0, 13)}, {1, totals(13, 40)}, {2, {}}, {3, totals(53, 7)}});
  EXPECT_EQ(parts, all);
  EXPECT_EQ(all.at("examples"), 60);
  EXPECT_EQ(scorer.pooled({{0, {}}}).at("examples"), 0);
}

TEST_F(TaskScorerTest, DecilesGoFromTheLeastToTheMostActiveClient) {
  const TaskScorer scorer(input());
  Scorer::ClientTotals totals_of_all;
  // Client c has c + 1 test examples; its activity is another number.
  for (ClientId client = 0; client < 10; ++client) {
    totals_of_all.emplace_back(client, totals(0, client + 1));
  }
  const auto deciles = scorer.deciles(totals_of_all);
  ASSERT_EQ(deciles.size(), 10U);
  const std::vector<double> by_activity{1, 3, 4, 2, 0, 9, 8, 7, 6, 5};  // clients
  for (std::size_t d = 0; d < 10; ++d) {
    EXPECT_EQ(deciles[d].clients, 1U);
    EXPECT_EQ(deciles[d].scores.at("examples"), by_activity[d] + 1) << deciles[d].name;
  }
  EXPECT_EQ(deciles[0].name, "decile 1");
  // A client that gave no totals is in no decile.
  totals_of_all[1].second = {};
  EXPECT_EQ(scorer.deciles(totals_of_all).size(), 9U);
}

TEST_F(TaskScorerTest, InvalidTotalsAreRefused) {
  const TaskScorer scorer(input());
  Message nonsense;
  nonsense.texts["names"] = "accuracy";
  EXPECT_THROW((void)scorer.pooled({{0, nonsense}}), DataError);
  EXPECT_NE(scorer.fault_of(nonsense), "");
  EXPECT_EQ(scorer.fault_of(totals(0, 10)), "");
  EXPECT_EQ(scorer.fault_of({}), "") << "nothing was said";
  Message damaged = totals(0, 10);
  for (auto& entry : damaged.tensors) entry.second = entry.second.flatten().narrow(0, 0, 1);
  EXPECT_THROW((void)scorer.pooled({{0, damaged}}), DataError);
}

}  // namespace
}  // namespace chorus::inline experiment
