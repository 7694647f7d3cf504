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

using testing::AllOf;
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
  const PublicData shared({{.unlabelled = {good}, .query_share = 0}, reading, data, 1});
  EXPECT_EQ(shared.size(), 2U);
  EXPECT_EQ(shared.queries(), 0U);
  EXPECT_EQ(shared.left_for_clients().size(), data.split(Split::kTrain).size());
  EXPECT_THAT(
      [&] {
        PublicData({{.unlabelled = {good}, .query = {bad}}, reading, data, 1});
      },
      testing::ThrowsMessage<DataError>(HasSubstr("no such topic")));
  EXPECT_THROW(PublicData({{.share = 0.001}, reading, data, 1}), ConfigError);
}

/// Files for a public set beside `data`.
class PublicFiles : public testing::Test {
 protected:
  PublicFiles() : data(open_dataset(tiny_experiment().data)) {}
  std::string write(const char* name, const std::string& lines) const {
    std::ofstream(folder / name) << lines;
    return (folder / name).string();
  }
  PublicData read(const PublicConfig& config, bool queries = true) const {
    return PublicData({config, reading, data, 1, queries});
  }
  std::string mistake(const PublicConfig& config, bool queries = true) const {
    return message_of<Error>([&] { read(config, queries); });
  }
  TemporaryFolder folder;
  Dataset data;
  DataConfig reading;
};

// As the configurations of older runs have them.
TEST_F(PublicFiles, TakePrecedenceOverShares) {
  const std::string texts = write("texts.jsonl", "{\"text\": \"a boat\"}\n{\"text\": \"a film\"}\n");
  const std::string label = ", \"label\": \"" + std::string(data.labels().at(0)) + "\"}\n";
  const std::string few = write("few.jsonl", "{\"text\": \"a ship\"" + label);
  const ExperimentConfig config =
      tiny_experiment({"algorithm=ds_fl",
                       "public={share: 0.5, unlabelled: ['" + texts + "'], query_share: 0.1, query: ['" + few + "']}"});
  testing::internal::CaptureStderr();
  const PublicData shared = read(*config.publics);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("public.share: 0.5 is not used, because public.unlabelled names files"),
                    HasSubstr("public.query_share: 0.1 is not used, because public.query names files")));
  EXPECT_EQ(shared.size(), 2U);
  EXPECT_EQ(shared.queries(), 1U);
  EXPECT_EQ(shared.left_for_clients().size(), data.split(Split::kTrain).size());
}

TEST_F(PublicFiles, LabelsAreRequiredWhereTheyAreNeeded) {
  const std::string bare = write("bare.jsonl", "{\"text\": \"a boat\"}\n{\"text\": \"a film\"}\n");
  const std::string name(data.labels().at(0));
  const std::string half = write(
      "half.jsonl", "{\"text\": \"a boat\", \"label\": \"" + name + "\"}\n{\"text\": \"a film\", \"label\": \"\"}\n");
  const std::string more = write("more.jsonl", "{\"text\": \"a boat\"}\n{\"text\": \"a film\"}\n");
  EXPECT_THAT(mistake({.unlabelled = {bare}, .query = {more}}),
              AllOf(HasSubstr("public.query: "), HasSubstr("more.jsonl: 2 of 2 examples have no label")));
  EXPECT_THAT(mistake({.unlabelled = {bare}, .query = {half}}), HasSubstr("half.jsonl: 1 of 2 examples"));
  EXPECT_THAT(mistake({.unlabelled = {bare}, .query_share = 0.5}),
              AllOf(HasSubstr("public.query_share: "), HasSubstr("bare.jsonl")));
  EXPECT_THAT(mistake({.unlabelled = {bare}, .query_share = 0, .labelled = true}), HasSubstr("public.labelled: "));
  EXPECT_EQ(mistake({.unlabelled = {bare}, .query_share = 0.5}, false), kNothingThrown)
      << "nobody learns from the query set";
}

TEST_F(PublicFiles, RegressionNeedsScores) {
  data = open_dataset(
      tiny_experiment({"data.train=['formulation=pair_regression,examples=60,test_examples=20,seed=7']"}).data);
  const std::string bare = write("bare.csv", "text,second\na boat,a ship\n");
  const std::string more = write("more.csv", "text,second\na boat,a ship\n");
  EXPECT_THAT(mistake({.unlabelled = {bare}, .query = {more}}), HasSubstr("1 of 1 examples have no label"));
}

TEST_F(PublicFiles, LabelsOfAnotherDomainAreIgnored) {
  const std::string other = write("other.jsonl", "{\"text\": \"a boat\", \"label\": \"7\"}\n");
  const PublicData shared = read({.unlabelled = {other}, .query_share = 0});
  EXPECT_EQ(shared.size(), 1U);
  const Experiment experiment(tiny_experiment());
  const PublicSet set = shared.set_for(experiment.task_model(), experiment.train());
  EXPECT_EQ(set.encoded->rows(), 1U);
  EXPECT_TRUE(set.texts->labels().empty());
  EXPECT_EQ(set.texts->text(0), "a boat");
  EXPECT_THAT(mistake({.unlabelled = {other}, .query_share = 0, .labelled = true}), HasSubstr("'7'"));
  EXPECT_THAT(mistake({.unlabelled = {other, other}, .query_share = 0.5}), HasSubstr("'7'"));
}

TEST_F(PublicFiles, TestDataIsRefused) {
  const std::string file = write("shared.jsonl", "{\"text\": \"a boat\"}\n");
  const std::string again = (folder / "." / "shared.jsonl").string();
  reading.train = {file};
  EXPECT_EQ(mistake({.unlabelled = {file}, .query_share = 0}), kNothingThrown) << "only a warning";
  reading.test = {again};
  EXPECT_THAT(mistake({.unlabelled = {file}, .query_share = 0}),
              AllOf(HasSubstr("public.unlabelled: "), HasSubstr("shared.jsonl is test data")));
  reading.test = {folder.path().string()};
  EXPECT_THAT(mistake({.unlabelled = {again}, .query_share = 0}), HasSubstr("is test data"));
}

TEST_F(PublicFiles, TheQuerySetIsNotPublic) {
  const std::string file = write("shared.jsonl", "{\"text\": \"a boat\"}\n");
  const std::string again = (folder / "." / "shared.jsonl").string();
  EXPECT_THAT(mistake({.unlabelled = {file}, .query = {again}}),
              AllOf(HasSubstr("public.query: "), HasSubstr("is in the public set, too (public.unlabelled: ")));
  EXPECT_THAT(mistake({.unlabelled = {folder.path().string()}, .query = {file}}), HasSubstr("is in the public set"));
}

TEST(PublicData, ClientsWithoutExamplesAreExplainedByThePublicSet) {
  EXPECT_THAT(message_of<ConfigError>([] {
                const Experiment experiment(
                    tiny_experiment({"public={share: 0.99}", "algorithm={name: ds_fl}", "clients.count=9",
                                     "clients.partition={name: label_dirichlet, alpha: 1}"}));
              }),
              AllOf(HasSubstr("9 clients for the 2 examples of the train split"),
                    HasSubstr("`public` leaves the clients 2 of 160 training examples")));
}

// WordPiece and byte-level BPE need different numbers of tokens for a word.
TEST(PublicData, EveryTokenizerMustReadAllWords) {
  const auto mistake = [](const std::string& formulation, const std::string& task) {
    return message_of<ConfigError>([&] {
      const Experiment experiment(tiny_experiment(
          {"data.train=['formulation=" + formulation + ",examples=60,test_examples=20,seed=7']", "task=" + task,
           "public={query_share: 0.2}", "algorithm={name: ds_fl}",
           "model={fresh: {model_type: bert, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
           "intermediate_size: 32, max_position_embeddings: 520}, tokenizer: " CHORUS_SOURCE_DIR "/models/chorus-mini}",
           "clients.models=[{name: bytes, share: 0.5, model: {fresh: {model_type: roberta, hidden_size: 16, "
           "num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32, max_position_embeddings: 520}, "
           "tokenizer: " CHORUS_SOURCE_DIR "/tests/golden/tokenizers/roberta}}]"}));
    });
  };
  EXPECT_EQ(mistake("seq_tagging", "{name: seq_tagging, max_length: 500}"), kNothingThrown);
  EXPECT_THAT(mistake("seq_tagging", "{name: seq_tagging, max_length: 8}"),
              AllOf(HasSubstr("task.max_length"), HasSubstr("bytes")));
  EXPECT_THAT(mistake("span_extraction", "{name: span_extraction, max_length: 24, doc_stride: 4, max_query_length: 8}"),
              AllOf(HasSubstr("task.max_length"), HasSubstr("the server's network")));
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
  config.models[2].share = 0.01;
  EXPECT_THAT([&] { assign_networks(config, sizes, 1); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("0.01 of 4 clients, which is none")));
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
  const std::string from = "model: {from: x}}";
  EXPECT_THAT(mistake({"algorithm=ds_fl", "public={}", "clients.models=[{name: a, " + from + "]"}),
              HasSubstr("a has no clients; give it a share"));
  EXPECT_THAT(
      mistake({"algorithm=ds_fl", "public={}", "clients.models=[{name: a, share: 1, clients: [1], " + from + "]"}),
      HasSubstr("a has a share and lists clients"));
  EXPECT_THAT(mistake({"algorithm=ds_fl", "public={}",
                       "clients.models=[{name: a, share: 0.5, " + from + ", {name: a, share: 0.5, " + from + "]"}),
              HasSubstr("two networks have the name a"));
  EXPECT_THAT(mistake({"algorithm={name: fedmd, server_rate: 1}", "public={}"}), HasSubstr("algorithm.server_rate"));
  EXPECT_THAT(mistake({"algorithm=fedavg", "checkpoint.client_models=true"}),
              HasSubstr("gives clients no models of their own"));
  EXPECT_THAT(mistake({"algorithm=ditto", "checkpoint.client_models=true"}), HasSubstr("chorus model personal"));
  const std::string scores = "data.train=['formulation=pair_regression,examples=60,test_examples=20,seed=7']";
  const auto fedid = [&](const std::string& options) {
    return mistake({scores, "task={name: pair_regression, max_length: 16}", "public={query_share: 0.2}",
                    "algorithm={name: fedid" + options + "}"});
  };
  EXPECT_THAT(fedid(""), HasSubstr("algorithm.feedback: by difference"));
  EXPECT_THAT(fedid(", preset: as_written, feedback: difference"), HasSubstr("algorithm.feedback: by difference"));
  for (const char* possible : {", preset: as_written", ", feedback: none", ", feedback: gradient"}) {
    EXPECT_EQ(fedid(possible), "");
  }
  EXPECT_THAT(mistake({"algorithm={name: ds_fl, text_loss: 0.5}", "public={}"}),
              HasSubstr("algorithm.text_loss is 0.5, but only language models"));
  const std::string language = "'formulation=language_model,examples=60,test_examples=20,seed=5'";
  const std::string network = "model.fresh={model_type: gpt2, n_embd: 16, n_layer: 1, n_head: 2, n_positions: 40}";
  EXPECT_EQ(mistake({"algorithm=ds_fl", "public={}", "task={name: causal_lm, max_length: 16}",
                     "data.train=[" + language + "]", network}),
            "");
}

}  // namespace
}  // namespace chorus::inline experiment
