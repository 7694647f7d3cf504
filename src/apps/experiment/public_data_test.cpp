#include "apps/experiment/public_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "apps/experiment/client_networks.h"
#include "apps/experiment/experiment.h"
#include "apps/experiment/tiny_experiment_test.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline experiment {
namespace {

using testing::HasSubstr;

TEST(PublicData, SplitsTheTrainingDataAsThePaperDoes) {
  const Experiment experiment(tiny_experiment({"public={}", "algorithm=ds_fl"}));
  const PublicData& shared = *experiment.public_data();
  EXPECT_EQ(shared.size(), 72U);  // 160 : 80 private; 72 : 8
  EXPECT_EQ(shared.queries(), 8U);
  std::vector<std::uint32_t> all(experiment.partition().train.ids().begin(), experiment.partition().train.ids().end());
  EXPECT_EQ(all.size(), 80U);
  const PublicSet set = shared.set_for(experiment.task_model(), experiment.train()),
                  queries = shared.queries_for(experiment.task_model(), experiment.train());
  all.insert(all.end(), set.examples.begin(), set.examples.end());
  all.insert(all.end(), queries.examples.begin(), queries.examples.end());
  std::sort(all.begin(), all.end());
  const auto train = experiment.data().split(Split::kTrain);
  EXPECT_TRUE(std::equal(all.begin(), all.end(), train.begin(), train.end())) << "every example once";
}

TEST(PublicData, ReadsOtherFilesAndRefusesOtherLabels) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& lines) {
    std::ofstream(folder / name) << lines;
    return (folder / name).string();
  };
  const std::string good = write("good.jsonl", "{\"text\": \"a boat\"}\n{\"text\": \"a film\"}\n");
  const std::string bad = write("bad.jsonl", "{\"text\": \"a boat\", \"label\": \"no such topic\"}\n");
  const ExperimentConfig config = tiny_experiment();
  const Dataset data = open_dataset(config.data);
  DataConfig reading;
  const PublicData shared({.unlabelled = {good}, .query_share = 0}, reading, data, 1);
  EXPECT_EQ(shared.size(), 2U);
  EXPECT_EQ(shared.queries(), 0U);
  EXPECT_EQ(shared.left_for_clients().size(), data.split(Split::kTrain).size());
  EXPECT_THAT([&] { PublicData({.unlabelled = {good}, .query = {bad}}, reading, data, 1); },
              testing::ThrowsMessage<DataError>(HasSubstr("no such topic")));
  EXPECT_THROW(PublicData({.share = 0.001}, reading, data, 1), ConfigError);
}

TEST(ClientNetworks, AreAssignedByListShareAndSize) {
  ClientsConfig config;
  config.models.resize(3);
  config.models[0].share = 0.5;
  config.models[1].clients = {2, 0};
  config.models[2].share = 0.25;
  config.model_order = ClientsConfig::ModelOrder::kSize;
  const std::vector<double> sizes{9, 4, 1, 7, 2, 8};
  // The others by size: 4, 1, 3, 5.
  EXPECT_EQ(assign_networks(config, sizes, 1), (std::vector<int>{1, 0, 1, 2, 0, -1}));
  config.model_order = ClientsConfig::ModelOrder::kRandom;
  const std::vector<int> drawn = assign_networks(config, sizes, 1);
  EXPECT_EQ(drawn, assign_networks(config, sizes, 1));
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), 0), 2);
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), -1), 1);
  config.models[2].share = 0.6;
  EXPECT_THROW(assign_networks(config, sizes, 1), ConfigError);
  config.models[2].clients = {2};
  EXPECT_THAT([&] { assign_networks(config, sizes, 1); }, testing::ThrowsMessage<ConfigError>(HasSubstr("twice")));
  config.models[2].clients = {6};
  EXPECT_THAT([&] { assign_networks(config, sizes, 1); }, testing::ThrowsMessage<ConfigError>(HasSubstr("6 clients")));
}

TEST(PublicData, ImpossibleConfigurationsAreRefused) {
  const auto mistake = [](const std::vector<std::string>& overrides) -> std::string {
    try {
      const Experiment experiment(tiny_experiment(overrides));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(mistake({"algorithm=fedid"}), HasSubstr("give `public`"));
  EXPECT_THAT(mistake({"algorithm=fedid", "public={query_share: 0}"}), HasSubstr("labelled examples at the server"));
  EXPECT_THAT(mistake({"algorithm=fedid", "public={query_share: 0.001}"}), HasSubstr("of 80 public examples is none"));
  EXPECT_THAT(mistake({"algorithm={name: fedmd, transfer_epochs: 1}", "public={}"}), HasSubstr("public.labelled"));
  EXPECT_THAT(mistake({"algorithm=fedavg", "clients.models=[{name: a, share: 1, model: {from: x}}]"}),
              HasSubstr("exchanges weights"));
  const std::string language = "'formulation=language_model,examples=60,test_examples=20,seed=5'";
  const std::string network = "model.fresh={model_type: gpt2, n_embd: 16, n_layer: 1, n_head: 2, n_positions: 40}";
  EXPECT_EQ(mistake({"algorithm=ds_fl", "public={}", "task={name: causal_lm, max_length: 16}",
                     "data.train=[" + language + "]", network}),
            "");
}

}  // namespace
}  // namespace chorus::inline experiment
