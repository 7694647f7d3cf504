// Every task from text to score, on data small enough to learn within seconds.
#include "application/tasks/task.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "application/models/batch.h"
#include "application/models/generation.h"
#include "application/models/loss.h"
#include "application/optim/adamw.h"
#include "application/tasks/causal_lm_task.h"
#include "application/tasks/classification_task.h"
#include "application/tasks/encode_split.h"
#include "application/tasks/evaluate.h"
#include "application/tasks/seq2seq_task.h"
#include "application/tasks/tiny_world_test.h"
#include "application/text/vocabulary_trainer.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline tasks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const EncodeConfig kInMemory{.cache = "none"};

struct Case {
  std::string task;
  Formulation formulation;
  std::int64_t steps;
  std::string score;  // must reach
  double goal;        // this (at most, for a perplexity)
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.task; }

/// A task by its registered name, always with the same lengths.
std::unique_ptr<Task> make(const std::string& name, const TaskInput& input) {
  Choice<Tasks> choice(name);
  ConfigVisitor visitor;
  choice.describe(visitor);
  for (ConfigField& field : visitor.fields()) {
    if (field.name == "max_length") field.set({{"", ConfigScalar{std::int64_t{32}}}});
    if (field.name == "doc_stride") field.set({{"", ConfigScalar{std::int64_t{8}}}});
    if (field.name == "max_target_length") field.set({{"", ConfigScalar{std::int64_t{12}}}});
  }
  return choice.make(input);
}

class EveryTask : public testing::TestWithParam<Case> {};

TEST_P(EveryTask, LearnsAndIsMeasured) {
  const Case& c = GetParam();
  at::set_num_threads(1);  // the matrices are tiny
  const Dataset data = tiny::dataset(c.formulation);
  const auto tokenizer = tiny::tokenizer(data);
  TaskInput input = TaskInput::of(data, tokenizer);
  const Head head = make(c.task, input)->head();
  const bool regression = c.formulation == Formulation::kPairRegression;
  const ModelConfig config =
      tiny::model_config(head, *tokenizer, regression ? std::vector<std::string>{"score"} : input.labels);
  input.model = config;
  const auto task = make(c.task, input);
  const auto model = make_model(config, head);
  task->check_model(*model);

  const auto train = encode_split(*task, data, Split::kTrain, kInMemory).data;
  const auto test = encode_split(*task, data, Split::kTest, kInMemory).data;
  EXPECT_EQ(train->examples().size(), 96U);
  EXPECT_GE(train->rows(), 96U);

  // Two clients with half of the data each.
  const auto examples = data.split(Split::kTrain);
  const ClientData halves[] = {task->client_data(train, examples.first(48)),
                               task->client_data(train, examples.last(48))};
  Params start(model->layout(), {});
  start.initialise(3);
  Params params = Params::copies_of(start, 2, true);
  AdamW optimizer({}, {.layout = std::make_shared<Layout>(model->layout()), .clients = 2});
  const std::vector<double> rates(2, 4e-3);
  at::Tensor first, last;
  for (std::int64_t step = 0; step < c.steps; ++step) {
    std::vector<std::vector<std::uint32_t>> rows(2);
    std::vector<ClientRows> cohort;
    for (std::size_t k = 0; k < 2; ++k) {
      for (std::size_t b = 0; b < 12; ++b) {
        rows[k].push_back(halves[k].rows[(static_cast<std::size_t>(step) * 12 + b) % halves[k].rows.size()]);
      }
      cohort.push_back({halves[k].data.get(), rows[k], k});
    }
    const TaskBatch batch = task->collate(cohort, {.seed = 1, .round = static_cast<std::uint64_t>(step)});
    Dropout off;
    const at::Tensor loss = task->loss(model->forward(params, batch.batch, off), batch);
    ASSERT_EQ(loss.dim(), 1);
    ASSERT_EQ(loss.size(0), 2);
    EXPECT_TRUE(batch.counted.gt(0).all().item<bool>());
    params.writes().zero();
    loss.sum().backward();
    optimizer.step(params.values(), params.grads(), rates);
    if (step == 0) first = loss.detach();
    last = loss.detach();
  }
  EXPECT_TRUE(last.lt(first * 0.7).all().item<bool>()) << first << last;

  const auto members = data.split(Split::kTest);
  const Params trained = params.client(0);
  const Evaluation result = evaluate(*task, *model, trained, {data, test, members}, {.predictions = true});
  ASSERT_EQ(result.predictions.size(), members.size());
  for (std::size_t i = 0; i < members.size(); ++i) EXPECT_EQ(result.predictions[i].example, members[i]);
  // A short text may have no masked token, and then is not scored.
  EXPECT_LE(result.scores.at("examples"), static_cast<double>(members.size()));
  EXPECT_GE(result.scores.at("examples"), c.task == "masked_lm" ? 12 : static_cast<double>(members.size()));
  const double reached = result.scores.at(c.score);
  if (c.score == "perplexity") {
    EXPECT_LT(reached, c.goal);
    EXPECT_NEAR(std::log(reached), result.scores.at("eval_loss"), 1e-4);
  } else {
    EXPECT_GT(reached, c.goal);
  }

  // The scores do not depend on order or batch size, and clients' metrics add up to the whole.
  std::vector<std::uint32_t> reversed(members.rbegin(), members.rend());
  const Evaluation again = evaluate(*task, *model, trained, {data, test, reversed}, {.batch_tokens = 64});
  EXPECT_NEAR(again.scores.at(c.score), reached, 1e-4);
  const Evaluation half = evaluate(*task, *model, trained, {data, test, members.first(12)});
  const Evaluation rest = evaluate(*task, *model, trained, {data, test, members.last(12)});
  half.metric->merge(*rest.metric);
  EXPECT_NEAR(half.metric->scores().at(c.score), reached, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Tasks, EveryTask,
    testing::Values(Case{"text_classification", Formulation::kTextClassification, 40, "accuracy", 0.9},
                    Case{"pair_classification", Formulation::kPairClassification, 60, "accuracy", 0.9},
                    Case{"pair_regression", Formulation::kPairRegression, 60, "pearson", 0.8},
                    Case{"seq_tagging", Formulation::kSequenceTagging, 50, "f1", 0.9},
                    Case{"span_extraction", Formulation::kSpanExtraction, 80, "f1", 0.5},
                    Case{"seq2seq", Formulation::kSeq2Seq, 120, "rouge1", 0.6},
                    Case{"causal_lm", Formulation::kLanguageModel, 60, "perplexity", 12},
                    Case{"masked_lm", Formulation::kLanguageModel, 120, "perplexity", 14}),
    [](const auto& test) { return test.param.task; });

TEST(Tasks, AreRegistered) {
  EXPECT_THAT(Tasks::names(), ElementsAre("causal_lm", "masked_lm", "pair_classification", "pair_regression", "seq2seq",
                                          "seq_tagging", "span_extraction", "text_classification"));
  for (const std::string& name : Tasks::names()) {
    EXPECT_EQ(
        std::set<std::string>({"causal_lm", "masked_lm"}).contains(name) || name == name_of(formulation_named(name)),
        true);
  }
}

TEST(Tasks, RefuseWhatDoesNotFit) {
  const Dataset data = tiny::dataset(Formulation::kTextClassification, 12, 3);
  const auto tokenizer = tiny::tokenizer(data);
  const auto task = Tasks::make("text_classification", TaskInput::of(data, tokenizer));
  // Another formulation.
  const Dataset tags = tiny::dataset(Formulation::kSequenceTagging, 4, 0);
  EXPECT_THAT(message_of<Error>([&] { encode_split(*task, tags, Split::kTrain, kInMemory); }),
              HasSubstr("text_classification cannot read seq_tagging data"));
  // An unknown label.
  TaskInput fewer{.tokenizer = tokenizer, .labels = {"sport", "money"}};
  const auto narrow = Tasks::make("text_classification", fewer);
  EXPECT_THAT(message_of<Error>([&] { encode_split(*narrow, data, Split::kTest, kInMemory); }),
              HasSubstr("example 14 (e14) of the test split has the label 'sky', which the task does not know"));
  // Models with other labels, another order, another head, another length, another vocabulary.
  const auto check = [&](Head head, const std::vector<std::string>& labels) {
    return message_of<Error>(
        [&] { task->check_model(*make_model(tiny::model_config(head, *tokenizer, labels), head)); });
  };
  EXPECT_THAT(check(Head::kSequenceClassification, {"a", "b"}), HasSubstr("2 labels (a, b)"));
  EXPECT_THAT(check(Head::kSequenceClassification, {"money", "sport", "sky"}), HasSubstr("another order"));
  EXPECT_THAT(check(Head::kTokenClassification, {"sport", "money", "sky"}), HasSubstr("needs a model with the head"));
  EXPECT_THAT(check(Head::kSequenceClassification, {"sport", "money", "sky"}), HasSubstr("reads at most 64"));
  const ClassificationTask shorter({.max_length = 16}, Formulation::kTextClassification,
                                   TaskInput::of(data, tokenizer));
  const auto model = make_model(tiny::model_config(Head::kSequenceClassification, *tokenizer, shorter.labels()),
                                Head::kSequenceClassification);
  EXPECT_EQ(message_of<Error>([&] { shorter.check_model(*model); }), kNothingThrown);
  // No mask token.
  text::VocabularyTrainer bytes(text::ModelSpec::Kind::kBpe, {.vocabulary_size = 300});
  bytes.add("some text");
  const TaskInput gpt{.tokenizer = std::make_shared<Tokenizer>(bytes.train())};
  EXPECT_THAT(message_of<Error>([&] { Tasks::make("masked_lm", gpt); }), HasSubstr("mask token"));
}

TEST(Tasks, UnlabelledExamplesAreAnsweredAndNotMeasured) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification});
  for (std::uint64_t i = 0; i < 6; ++i) {
    Record r = tiny::record(Formulation::kTextClassification, i);
    if (i >= 3) r.label.clear();
    builder.add(r, i < 3 ? Split::kTrain : Split::kTest);
  }
  const Dataset data = std::move(builder).finish();
  const auto tokenizer = tiny::tokenizer(data);
  const ClassificationTask task({.max_length = 16}, Formulation::kTextClassification, TaskInput::of(data, tokenizer));
  const auto test = encode_split(task, data, Split::kTest, kInMemory).data;
  EXPECT_EQ(test->label(0), kIgnore);
  const auto model = make_model(tiny::model_config(task.head(), *tokenizer, task.labels()), task.head());
  Params params(model->layout(), {});
  params.initialise(1);
  const Evaluation result =
      evaluate(task, *model, params, {data, test, data.split(Split::kTest)}, {.predictions = true});
  EXPECT_EQ(result.predictions.size(), 3U);
  EXPECT_GE(result.predictions[0].label, 0);
  EXPECT_EQ(result.metric->examples(), 0U);
  EXPECT_TRUE(std::isnan(result.scores.at("eval_loss")));
}

TEST(Tasks, FednlpPaddingIsReadAsText) {
  const Dataset data = tiny::dataset(Formulation::kTextClassification, 6, 0);
  const auto tokenizer = tiny::tokenizer(data);
  const ClassificationTask task({.max_length = 20, .fednlp_attend_padding = true}, Formulation::kTextClassification,
                                TaskInput::of(data, tokenizer));
  const auto train = encode_split(task, data, Split::kTrain, kInMemory).data;
  for (std::uint32_t row = 0; row < 6; ++row) {
    EXPECT_EQ(train->length(row), 20U);
    EXPECT_EQ(train->ids(row)[19], *tokenizer->special().pad);
  }
}

TEST(CausalLm, BlocksLoseNothingAndMixNoClients) {
  const Dataset data = tiny::dataset(Formulation::kLanguageModel, 20, 0);
  const auto tokenizer = tiny::tokenizer(data);
  const CausalLmTask texts({.max_length = 8}, {.tokenizer = tokenizer});
  const CausalLmTask blocks({.max_length = 8, .block_length = 10}, {.tokenizer = tokenizer});
  EXPECT_NE(texts.encoding_key(), blocks.encoding_key());
  const auto encoded = encode_split(blocks, data, Split::kTrain, kInMemory).data;
  const auto mine = data.split(Split::kTrain).subspan(5, 7);
  const ClientData client = blocks.client_data(encoded, mine);
  std::vector<std::int32_t> expected, joined;
  for (const std::uint32_t row : encoded->rows_of(mine)) {
    EXPECT_EQ(encoded->ids(row).back(), *tokenizer->special().sep);
    expected.insert(expected.end(), encoded->ids(row).begin(), encoded->ids(row).end());
  }
  for (const std::uint32_t row : client.rows) {
    if (row + 1 < client.rows.size()) {
      EXPECT_EQ(client.data->length(row), 10U);
    }
    joined.insert(joined.end(), client.data->ids(row).begin(), client.data->ids(row).end());
  }
  EXPECT_EQ(joined, expected);
  // Without blocks, long texts are truncated, and that is counted.
  const auto cut = encode_split(texts, data, Split::kTrain, kInMemory).data;
  std::uint64_t longer = 0;
  for (std::uint32_t row = 0; row < encoded->rows(); ++row) longer += encoded->length(row) > 8 ? 1 : 0;
  EXPECT_EQ(cut->count(EncodeCount::kTruncated), longer);
  EXPECT_GT(longer, 0U);
}

TEST(CausalLm, TheLastTokenIsAskedForButNotRead) {
  const Dataset data = tiny::dataset(Formulation::kLanguageModel, 8, 0);
  const auto tokenizer = tiny::tokenizer(data);
  const CausalLmTask task({.max_length = 16}, {.tokenizer = tokenizer});
  EncodedPart part;
  part.ids = {7};  // nothing can be predicted from a single token
  part.end_row();
  part.end_example(0);
  const EncodedDataset alone(std::move(part), {.vocabulary = 300});
  const auto encoded = encode_split(task, data, Split::kTrain, kInMemory).data;
  const std::vector<std::uint32_t> first{0}, rows{0, 1, 2};
  const std::vector<ClientRows> cohort{{encoded.get(), rows}, {&alone, first}};
  const TaskBatch batch = task.collate(cohort, {});
  EXPECT_EQ(batch.batch.packing->lengths()[1], std::vector<std::int64_t>{1});
  EXPECT_EQ(batch.labels[1][0].item<std::int64_t>(), kIgnore);

  // As in Hugging Face: everything is read, and the output of the last token is dropped.
  CohortRows whole(2);
  for (const std::uint32_t row : rows) whole[0].emplace_back(encoded->ids(row).begin(), encoded->ids(row).end());
  whole[1] = {{7}};
  const Batch all = collate(whole);
  const at::Tensor labels = next_token(all.ids, *all.packing);
  EXPECT_EQ(batch.batch.ids.size(1) + 3, all.ids.size(1));
  EXPECT_TRUE(batch.counted.equal(count_labels(labels)));
  const auto model = make_model(tiny::model_config(Head::kCausalLm, *tokenizer), Head::kCausalLm);
  Params start(model->layout(), {});
  start.initialise(17);
  const Params params = Params::copies_of(start, 2, false);
  Dropout off;
  const at::Tensor expected = cross_entropy(model->forward(params, all, off).logits, labels);
  const at::Tensor loss = task.loss(model->forward(params, batch.batch, off), batch);
  EXPECT_TRUE(loss.allclose(expected, 1e-6, 1e-6)) << loss << expected;
  EXPECT_GT(loss[0].item<float>(), 1);
}

TEST(Seq2Seq, TargetsAreShiftedByOne) {
  const Dataset data = tiny::dataset(Formulation::kSeq2Seq, 4, 0);
  const auto tokenizer = tiny::tokenizer(data);
  const TaskInput input{.tokenizer = tokenizer, .model = tiny::model_config(Head::kSeq2Seq, *tokenizer)};
  const Seq2SeqTask standard({}, input), fednlp({.fednlp_shift_targets = true}, input);
  const auto encoded = encode_split(standard, data, Split::kTrain, kInMemory).data;
  const std::vector<std::uint32_t> rows{0, 1};
  const std::vector<ClientRows> cohort{{encoded.get(), rows}};
  const TaskBatch a = standard.collate(cohort, {}), b = fednlp.collate(cohort, {});
  std::vector<std::int64_t> inputs, labels, short_inputs, short_labels;
  for (const std::uint32_t row : rows) {
    const auto target = encoded->target_ids(row);
    EXPECT_EQ(target.front(), *tokenizer->special().cls);
    EXPECT_EQ(target.back(), *tokenizer->special().sep);
    inputs.push_back(*tokenizer->special().pad);
    inputs.insert(inputs.end(), target.begin(), target.end() - 1);
    labels.insert(labels.end(), target.begin(), target.end());
    short_inputs.insert(short_inputs.end(), target.begin(), target.end() - 1);
    short_labels.insert(short_labels.end(), target.begin() + 1, target.end());
  }
  EXPECT_TRUE(a.batch.target_ids.equal(torch::tensor(inputs).unsqueeze(0)));
  EXPECT_TRUE(a.labels.equal(torch::tensor(labels).unsqueeze(0)));
  EXPECT_TRUE(b.batch.target_ids.equal(torch::tensor(short_inputs).unsqueeze(0)));
  EXPECT_TRUE(b.labels.equal(torch::tensor(short_labels).unsqueeze(0)));
}

}  // namespace
}  // namespace chorus::inline tasks
