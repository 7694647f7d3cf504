#include "apps/experiment/own_data.h"

#include <fmt/format.h>

#include "application/data/readers/open_dataset.h"
#include "application/tasks/encode_split.h"
#include "core/base/error.h"

namespace chorus::inline experiment {

Dataset open_server_data(DataConfig config) {
  if (config.test.empty()) throw ConfigError("the server has nothing to test on: give data.test");
  config.train.clear();
  config.validation.clear();
  return open_dataset(config);
}

TestSet own_test_set(const TaskModel& model, const Dataset& data) {
  const auto all = data.split(Split::kTest);
  TestSet test{
      data, encode_split(model.task(), data, Split::kTest, model.config().encoding).data, {all.begin(), all.end()}};
  draw_test_subset(model.config(), test.examples);
  return test;
}

std::optional<PublicData> own_public_data(const ExperimentConfig& config, const DataConfig& reading,
                                          const Dataset& data) {
  if (!config.publics) return std::nullopt;
  PublicConfig publics = *config.publics;
  if (publics.query.empty()) publics.query_share = 0;  // everybody has the same files
  return std::optional<PublicData>(std::in_place,
                                   PublicData::Input{publics, reading, data, static_cast<std::uint64_t>(config.seed),
                                                     config.algorithm.make()->queries()});
}

Dataset open_client_data(DataConfig config, const TaskFacts& facts) {
  if (config.train.empty()) throw ConfigError("this client has nothing to train on: give data.train");
  config.formulation = name_of(facts.formulation);
  config.allow_new_labels = true;  // the server's labels decide
  return open_dataset(config);
}

ClientExamples own_examples(const TaskModel& model, const Dataset& data, ClientId id) {
  if (data.split(Split::kTrain).empty()) {
    throw DataError(fmt::format("client {} has no training examples; give files with some as data.train", id));
  }
  const EncodeConfig& encoding = model.config().encoding;
  ClientExamples examples{.data = data, .train = encode_split(model.task(), data, Split::kTrain, encoding).data};
  examples.test = encode_split(model.task(), data, Split::kTest, encoding).data;
  examples.train_lists.append(data.split(Split::kTrain));
  examples.test_lists.append(data.split(Split::kTest));
  examples.ids = {id};
  return examples;
}

}  // namespace chorus::inline experiment
