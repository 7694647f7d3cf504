// Evaluation compared with a plain loop over single examples, for every task.
#include "application/tasks/evaluate.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "application/tasks/encode_split.h"
#include "application/tasks/tiny_world_test.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline tasks {
namespace {

struct EvaluatedTask {
  std::string task;
  Formulation formulation;
};

void PrintTo(const EvaluatedTask& value, std::ostream* out) { *out << value.task; }

/// Data, task and network of a case; the network is random.
struct EvaluatedWorld {
  explicit EvaluatedWorld(const EvaluatedTask& c, std::int64_t block_length = 0)
      : data(tiny::dataset(c.formulation, 16, 24)) {
    const auto tokenizer = tiny::tokenizer(data);
    TaskInput input = TaskInput::of(data, tokenizer);
    const Head head = make(c.task, input, block_length)->head();
    const bool regression = c.formulation == Formulation::kPairRegression;
    const ModelConfig config =
        tiny::model_config(head, *tokenizer, regression ? std::vector<std::string>{"score"} : input.labels);
    input.model = config;
    task = make(c.task, input, block_length);
    model = make_model(config, head);
    test = encode_split(*task, data, Split::kTest, {.cache = "none"}).data;
  }

  static std::unique_ptr<Task> make(const std::string& name, const TaskInput& input, std::int64_t block_length) {
    Choice<Tasks> choice(name);
    ConfigVisitor visitor;
    choice.describe(visitor);
    for (ConfigField& field : visitor.fields()) {
      if (field.name == "max_length") field.set({{"", ConfigScalar{std::int64_t{32}}}});
      if (field.name == "doc_stride") field.set({{"", ConfigScalar{std::int64_t{8}}}});
      if (field.name == "max_target_length") field.set({{"", ConfigScalar{std::int64_t{12}}}});
      if (field.name == "block_length") field.set({{"", ConfigScalar{block_length}}});
    }
    return choice.make(input);
  }

  /// Far from uniform logits, so that rounding decides nothing.
  Params params(std::uint64_t seed) const {
    Params result(model->layout(), {});
    result.initialise(seed);
    result.values().mul_(3);
    return result;
  }
  EvaluationSet set() const { return {data, test, data.split(Split::kTest)}; }
  EvaluationSet part(std::size_t begin, std::size_t count) const {
    return {data, test, data.split(Split::kTest).subspan(begin, count)};
  }

  /// One example at a time, by definition.
  Scores one_by_one(const Params& params) const {
    const at::NoGradGuard no_grad;
    const auto metric = task->metric();
    double loss = 0, counted = 0;
    for (const std::uint32_t example : data.split(Split::kTest)) {
      const std::vector<std::uint32_t> one{example}, rows = test->rows_of(one);
      if (rows.empty()) continue;
      const std::vector<ClientRows> cohort{{test.get(), rows}};
      const TaskBatch batch = task->collate(cohort, {});
      Dropout off;
      const Output output = model->forward(params, batch.batch, off);
      const auto answers = batch.counted[0].item<double>();
      if (answers > 0) loss += task->loss(output, batch)[0].item<double>() * answers;
      counted += answers;
      for (const Prediction& prediction : task->predict(*model, params, output, batch, data)) {
        task->score(prediction, data, *metric);
      }
    }
    Scores scores = metric->scores();
    scores["eval_loss"] = loss / counted;
    return scores;
  }

  Dataset data;
  std::unique_ptr<Task> task;
  std::unique_ptr<Model> model;
  std::shared_ptr<const EncodedDataset> test;
};

/// The exponential of a random network's loss, and correlations of answers that hardly differ, magnify its rounding.
bool magnifies(const std::string& name) {
  return name == "perplexity" || name == "correlation" || name == "pearson" || name == "spearman";
}

void expect_near_scores(const Scores& actual, const Scores& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(actual.at(name))) << name;
    } else {
      EXPECT_NEAR(actual.at(name), value, (magnifies(name) ? 1000 : 1) * tolerance * std::max(1.0, std::abs(value)))
          << name;
    }
  }
}

/// Bit-identical.
void expect_same_scores(const Scores& actual, const Scores& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(actual.at(name) == value || (std::isnan(value) && std::isnan(actual.at(name))))
        << name << ' ' << actual.at(name) << ' ' << value;
  }
}

class Evaluate : public testing::TestWithParam<EvaluatedTask> {};

TEST_P(Evaluate, EqualsOneExampleAtATimeWhateverTheBatch) {
  const EvaluatedWorld world(GetParam());
  const Params params = world.params(3);
  const Scores expected = world.one_by_one(params);
  EXPECT_GT(expected.at("examples"), 10);
  for (const std::int64_t tokens : {0, 1, 64, 300}) {
    const Evaluation result = evaluate(*world.task, *world.model, params, world.set(), {.batch_tokens = tokens});
    expect_near_scores(result.scores, expected, 1e-5);
  }
}

TEST_P(Evaluate, DoesNotDependOnThreads) {
  const EvaluatedWorld world(GetParam());
  const Params params = world.params(4);
  const auto scores = [&](int workers) {
    return evaluate(*world.task, *world.model, params, world.set(), {.batch_tokens = 64, .workers = workers}).scores;
  };
  const Scores expected = scores(1);
  for (const int count : {1, 2, 4}) {
    const TorchThreads threads(count);
    for (const int workers : {0, 1, 2, 4}) expect_same_scores(scores(workers), expected);
    EXPECT_EQ(at::get_num_threads(), count) << "the caller's threads are left alone";
  }
}

TEST_P(Evaluate, ACohortEqualsItsClientsAlone) {
  const EvaluatedWorld world(GetParam());
  const std::vector<Params> own{world.params(5), world.params(6), world.params(7), world.params(8)};
  Params cohort = Params::copies_of(own[0], 4, false);
  for (std::int64_t c = 0; c < 4; ++c) cohort.values()[c].copy_(own[static_cast<std::size_t>(c)].values()[0]);
  // The second client has most examples, the third none.
  const std::vector<EvaluationSet> sets{world.part(0, 4), world.part(4, 15), world.part(0, 0), world.part(16, 8)};
  const auto together =
      evaluate_cohort(*world.task, *world.model, cohort, sets, {.batch_tokens = 256, .predictions = true});
  ASSERT_EQ(together.size(), 4U);
  for (std::size_t c = 0; c < 4; ++c) {
    const Evaluation alone = evaluate(*world.task, *world.model, own[c], sets[c], {.predictions = true});
    expect_near_scores(together[c].scores, alone.scores, 1e-5);
    ASSERT_EQ(together[c].predictions.size(), alone.predictions.size());
    for (std::size_t i = 0; i < alone.predictions.size(); ++i) {
      EXPECT_EQ(together[c].predictions[i].example, alone.predictions[i].example);
      EXPECT_EQ(together[c].predictions[i].text, alone.predictions[i].text);
      EXPECT_EQ(together[c].predictions[i].tags, alone.predictions[i].tags);
    }
  }
  EXPECT_TRUE(std::isnan(together[2].scores.at("eval_loss")));
}

TEST_P(Evaluate, Bfloat16IsClose) {
  const EvaluatedWorld world(GetParam());
  const Params params = world.params(9);
  const Scores exact = evaluate(*world.task, *world.model, params, world.set()).scores;
  const Scores rounded = evaluate(*world.task, *world.model, params.with_shadow(), world.set()).scores;
  EXPECT_NEAR(rounded.at("eval_loss"), exact.at("eval_loss"), 0.03 * exact.at("eval_loss"));
  EXPECT_NE(rounded.at("eval_loss"), exact.at("eval_loss")) << "the shadow copies were not used";
}

INSTANTIATE_TEST_SUITE_P(Tasks, Evaluate,
                         testing::Values(EvaluatedTask{"text_classification", Formulation::kTextClassification},
                                         EvaluatedTask{"pair_classification", Formulation::kPairClassification},
                                         EvaluatedTask{"pair_regression", Formulation::kPairRegression},
                                         EvaluatedTask{"seq_tagging", Formulation::kSequenceTagging},
                                         EvaluatedTask{"span_extraction", Formulation::kSpanExtraction},
                                         EvaluatedTask{"seq2seq", Formulation::kSeq2Seq},
                                         EvaluatedTask{"causal_lm", Formulation::kLanguageModel},
                                         EvaluatedTask{"masked_lm", Formulation::kLanguageModel}),
                         [](const auto& test) { return test.param.task; });

TEST(EvaluateBlocks, ACohortEqualsItsClientsAlone) {
  const EvaluatedWorld world({"causal_lm", Formulation::kLanguageModel}, 10);
  const Params one = world.params(5), other = world.params(6);
  Params cohort = Params::copies_of(one, 2, false);
  cohort.values()[1].copy_(other.values()[0]);
  const std::vector<EvaluationSet> sets{world.part(0, 5), world.part(5, 19)};
  const auto together = evaluate_cohort(*world.task, *world.model, cohort, sets, {.batch_tokens = 64});
  expect_near_scores(together[0].scores, evaluate(*world.task, *world.model, one, sets[0]).scores, 1e-5);
  expect_near_scores(together[1].scores, evaluate(*world.task, *world.model, other, sets[1]).scores, 1e-5);
}

}  // namespace
}  // namespace chorus::inline tasks
