// A task with its own head, loss and metric is one pair (toy_task.h, toy_task.cpp): everything else picks it up.
#include "tests/contract/toy_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "application/models/pretrained.h"
#include "application/peft/adapters.h"
#include "application/tasks/encode_split.h"
#include "application/tasks/evaluate.h"
#include "application/tasks/task_file.h"
#include "application/text/hugging_face.h"
#include "application/trainer/cohort_trainer.h"
#include "apps/experiment/experiment.h"
#include "apps/experiment/run_experiment.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/console/quiet_console.h"
#include "core/files/files.h"
#include "infrastructure/tracking/metrics_log.h"
#include "tests/support.h"

namespace chorus::inline contract {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* kName = "toy_topic_and_length";
constexpr const char* kRun = R"(
name: toy
seed: 3
data: {format: synthetic, train: ["formulation=text_classification,examples=160,test_examples=40,labels=3,seed=7"]}
encoding: {cache: none}
task: {name: toy_topic_and_length, max_length: 24, length_weight: 0.5}
model:
  fresh: {model_type: bert, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 64,
          max_position_embeddings: 40}
  tokenizer: models/chorus-mini
clients: {count: 6, partition: uniform}
rounds: 4
clients_per_round: 6
trainer: {batch_size: 8, learning_rate: 1.0e-2}
federation: {workers: 1}
)";

ExperimentConfig config_of(const std::vector<std::string>& overrides = {}) {
  std::string text = kRun;
  const std::string relative = "models/chorus-mini";
  text.replace(text.find(relative), relative.size(), CHORUS_SOURCE_DIR "/" + relative);
  return ConfigDocument::parse(text, "toy", overrides).load<ExperimentConfig>();
}

std::shared_ptr<const Tokenizer> tokenizer() { return load_tokenizer(CHORUS_SOURCE_DIR "/models/chorus-mini"); }

struct Trained {
  RunReport report;
  std::vector<Scores> evaluations;  // of the test split, by round
};

Trained train(const TemporaryFolder& folder, const std::vector<std::string>& overrides = {}) {
  const QuietConsole quiet;
  Trained result{run_experiment(config_of(overrides), {.folder = folder / "run"}), {}};
  for (const Event& event : read_events(folder / "run" / "metrics.jsonl")) {
    if (event.kind == "evaluation") result.evaluations.push_back({event.numbers.begin(), event.numbers.end()});
  }
  return result;
}

TEST(ToyTask, IsFoundByName) {
  EXPECT_THAT(Tasks::names(), Contains(kName));
  EXPECT_THAT(Heads::names(), Contains(kName));
  EXPECT_EQ(head_named(kName)->class_ending, std::string("ForTopicAndLength"));
}

TEST(ToyTask, RunsAndIsSavedAndLoadedAgain) {
  const TemporaryFolder folder;
  const Trained trained = train(folder);
  EXPECT_EQ(trained.report.summary.metric, "length_error");
  EXPECT_FALSE(trained.report.summary.higher_is_better) << "as the task says";
  ASSERT_EQ(trained.evaluations.size(), 5U);
  const Scores& first = trained.evaluations.front();
  const Scores& last = trained.evaluations.back();
  // The texts have 50 to 200 characters: an untrained head is off by more than 4.
  EXPECT_GT(first.at("length_error"), 3);
  EXPECT_LT(last.at("length_error"), 1);
  EXPECT_LT(last.at("eval_loss"), first.at("eval_loss"));

  const auto model = folder / "run" / "model";
  const auto json = nlohmann::json::parse(read_file(model / "config.json"));
  EXPECT_EQ(json["architectures"], nlohmann::json({"BertForTopicAndLength"}));
  const Experiment again(config_of());
  const auto choice = read_task(model);
  ASSERT_TRUE(choice.has_value());
  const auto task = choice->make(TaskInput::of(again.data(), tokenizer()));
  const Pretrained loaded = load_pretrained(model);
  EXPECT_EQ(loaded.model->head(), task->head());
  const Evaluation evaluation =
      evaluate(*task, *loaded.model, loaded.params, {again.data(), again.test(), again.shared_test()}, {.seed = 3});
  for (const auto& [name, value] : evaluation.scores) EXPECT_DOUBLE_EQ(value, last.at(name)) << name;
}

TEST(ToyTask, AdaptersTrainItsHead) {
  const TemporaryFolder folder;
  const Trained trained = train(folder, {"tuning.name=pfeiffer", "tuning.width=4", "trainer.learning_rate=0.03"});
  EXPECT_LT(trained.evaluations.back().at("length_error"), trained.evaluations.front().at("length_error"));
  const Pretrained plain = load_pretrained(folder / "run" / "model");
  for (const ParamSpec& spec : plain.model->layout().specs()) {
    EXPECT_EQ(plain.model->is_answer(spec), spec.name.starts_with("toy.")) << spec.name;
  }
}

TEST(ToyTask, EveryFamilyThatTakesModulesCarriesItsHead) {
  const Experiment experiment(config_of());
  const Task& task = experiment.task();
  int carried = 0;
  for (const std::string& type : Models::names()) {
    nlohmann::json json{{"model_type", type}, {"vocab_size", experiment.tokenizer().vocabulary_size()}};
    for (const char* key : {"hidden_size", "dim", "n_embd", "d_model", "embedding_size"}) json[key] = 16;
    for (const char* key : {"num_hidden_layers", "n_layers", "n_layer", "num_layers"}) json[key] = 1;
    for (const char* key : {"num_attention_heads", "n_heads", "n_head"}) json[key] = 2;
    for (const char* key : {"intermediate_size", "hidden_dim", "n_inner"}) json[key] = 32;
    json["decoder_start_token_id"] = 0;
    ModelConfig config = ModelConfig::parse(json.dump(), type);
    config.set_labels(task.head_labels());
    if (!family_of(config).takes_modules) {
      EXPECT_THAT(message_of<ConfigError>([&] { make_model(config, task.head()); }),
                  HasSubstr(type + " models have no toy_topic_and_length head"));
      continue;
    }
    ++carried;
    const auto model = make_model(config, task.head());
    task.check_model(*model);
    Params params(model->layout(), {});
    params.initialise(1);
    const auto rows = task.client_data(experiment.train(), experiment.data().split(Split::kTrain).subspan(0, 64));
    const std::vector<TrainClient> clients{{0, rows, 64}, {1, rows, 64}};
    const TrainerConfig trainer =
        ConfigDocument::parse("{batch_size: 8, epochs: 4, learning_rate: 0.01}", "toy").load<TrainerConfig>();
    const TrainerInput input{task, *model, params};
    const CohortTrainer cohort(input, trainer);
    const at::Tensor start = params.values()[0].clone();
    const double before = cohort.gradient(clients, start, {}, false).loss[0];
    const TrainResult result = cohort.train(clients, start, {.seed = 1}, {}, {});
    EXPECT_LT(cohort.gradient(clients, result.values, {}, false).loss[0], before / 2) << type;
  }
  EXPECT_EQ(carried, 6) << "bert, bilstm, distilbert, gpt2, lstm and roberta";
}

TEST(ToyTask, ItsFieldsArePartOfARecordedStep) {
  const Experiment experiment(config_of());
  const std::vector<std::uint32_t> rows{0, 1};
  const std::vector<ClientRows> cohort{{experiment.train().get(), rows, 0}};
  TaskBatch batch = experiment.task().collate(cohort);
  ASSERT_EQ(batch.fields.size(), 1U);
  std::vector<at::Tensor*> listed;
  visit_device_parts(
      batch, [&](at::Tensor& tensor) { listed.push_back(&tensor); }, [](auto&) {});
  EXPECT_THAT(listed, Contains(&batch.fields[0]));
}

// The same task with all targets in `fields`.
class FieldsOnly : public ToyTask {
 public:
  using ToyTask::ToyTask;

  TaskBatch collate(std::span<const ClientRows> cohort, const CollateOptions& options) const override {
    TaskBatch batch = ToyTask::collate(cohort, options);
    batch.fields.push_back(std::exchange(batch.labels, {}));
    return batch;
  }
  at::Tensor loss(const Output& output, const TaskBatch& batch) const override {
    TaskBatch labelled = batch;
    labelled.labels = batch.fields.at(1);
    return ToyTask::loss(output, labelled);
  }
};

TEST(ToyTask, ACohortIsEvaluatedLikeSingleClients) {
  const Experiment experiment(config_of());
  const Dataset& data = experiment.data();
  const FieldsOnly task({}, TaskInput::of(data, tokenizer()));
  const Model& model = experiment.model();
  Params cohort(model.layout(), {.clients = 2});
  std::vector<EvaluationSet> sets;
  for (const std::size_t examples : {7U, 30U}) {
    sets.push_back({data, experiment.test(), std::span(experiment.shared_test()).first(examples)});
  }
  cohort.initialise(1);
  cohort.values()[1].mul_(1.5);
  const auto together = evaluate_cohort(task, model, cohort, sets);
  ASSERT_EQ(together.size(), 2U);
  for (std::size_t c = 0; c < 2; ++c) {
    const Evaluation alone = evaluate(task, model, cohort.client(static_cast<std::int64_t>(c)), sets[c]);
    for (const auto& [name, value] : alone.scores) EXPECT_NEAR(together[c].scores.at(name), value, 1e-5) << name;
  }
  EXPECT_NE(together[0].scores.at("length_error"), together[1].scores.at("length_error"));
}

TEST(ToyTask, PredictFindsItByItsHead) {
  const Experiment experiment(config_of());
  const TaskInput input = TaskInput::of(experiment.data(), tokenizer());
  EXPECT_EQ(task_for(experiment.task().head(), Formulation::kTextClassification, input), kName);
  EXPECT_EQ(task_for(Head::kSequenceClassification, Formulation::kTextClassification, input), "text_classification");
  EXPECT_THAT(message_of<ConfigError>([&] { task_for(Head::kNone, Formulation::kSeq2Seq, input); }),
              HasSubstr("no task"));
}

}  // namespace
}  // namespace chorus::inline contract
