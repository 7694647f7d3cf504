// Federated distillation as a user types it: it learns, its bytes are those of the paper, and mistakes are explained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/run_fixture.h"

namespace chorus::inline integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kDistillation = R"(
kind: experiment
name: distillation
seed: 3
data:
  format: synthetic
  train: ["formulation=text_classification,examples=900,test_examples=200,labels=2,overlap=0,label_noise=0,skew=0,seed=7"]
encoding: {cache: none}
task: {name: text_classification, max_length: 24}
model:
  fresh: {model_type: bert, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32,
          max_position_embeddings: 40}
  tokenizer: models/chorus-mini
clients: {count: 3, partition: {name: label_dirichlet, alpha: 100}}
public: {share: 0.4, query_share: 0.2}
algorithm: {name: fedid, epochs: 2, batch_size: 16, rate: 0.1, server_rate: 1}
rounds: 3
clients_per_round: 3
trainer: {batch_size: 8, epochs: 6, learning_rate: 5e-3, clip: 0}
federation: {workers: 1}
)";

constexpr const char* kTexts =
    "data.train=['formulation=language_model,examples=240,test_examples=40,clients=3,seed=5']";
constexpr const char* kUniform = "clients.partition=uniform";
constexpr const char* kGpt2 = CHORUS_SOURCE_DIR "/tests/golden/tokenizers/gpt2";

std::string network(const std::string& tokenizer) {
  return "model: {fresh: {model_type: gpt2, n_embd: 16, n_layer: 1, n_head: 2, n_positions: 160}, tokenizer: " +
         tokenizer + "}";
}
std::string gpt2(const std::string& tokenizer) { return "model=" + network(tokenizer).substr(7); }

class DistillationRun : public RunTest {
 protected:
  /// A score before the first round.
  double first_score(const std::string& name, const char* score) const {
    std::istringstream lines(read(folder_ / name / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const json event = json::parse(line);
      if (event.at("kind") == "evaluation") return event.at(score).get<double>();
    }
    return 0;
  }
  DistillationRun() : RunTest(kDistillation) {}
  double accuracy(const std::string& name) const { return summary(name).at("last").at("accuracy").get<double>(); }
  /// Mean perplexity of the clients' own models on their own test texts, after a run.
  double own_score(const std::string& name, std::vector<std::string> overrides) {
    overrides.emplace_back("evaluation.per_client=true");
    EXPECT_EQ(run(name, overrides), 0) << output_;
    return summary(name).at("own_test").at(0).at("mean").get<double>();
  }
  json plan(const std::vector<std::string>& overrides) const {
    std::vector<std::string> words{"plan", (folder_ / "tiny.yaml").string()};
    words.insert(words.end(), overrides.begin(), overrides.end());
    words.emplace_back("--json");
    const Chorus program(words, folder_ / "plan.log");
    EXPECT_EQ(program.wait(), 0) << program.output();
    const std::string text = program.output();
    return json::parse(text.substr(text.find('{')));
  }
  /// The message of a refused run.
  std::string refused(const std::vector<std::string>& overrides, int status = 2) {
    EXPECT_EQ(run("refused", overrides), status) << output_;
    EXPECT_FALSE(fs::exists(folder_ / "refused" / "summary.json"));
    return output_;
  }
  std::string file(const char* name, const std::string& lines) const {
    std::ofstream(folder_ / name) << lines;
    return (folder_ / name).string();
  }
};

// Chance is 0.5. The network is new: clients must learn something before the first exchange.
TEST_F(DistillationRun, FedIdLearnsAnEasyTask) {
  ASSERT_EQ(run("published"), 0) << output_;
  EXPECT_GT(accuracy("published"), 0.85);
  ASSERT_EQ(run("written", {"algorithm={name: fedid, preset: as_written, epochs: 2, batch_size: 16}"}), 0) << output_;
  EXPECT_GT(accuracy("written"), 0.85);
}

TEST_F(DistillationRun, PredictionsCanBeSummedSecurelyAndNoised) {
  const std::vector<std::string> mhat{"algorithm={name: mhat, epochs: 1, batch_size: 16}", "rounds=1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), mhat.begin(), mhat.end());
    return more;
  };
  ASSERT_EQ(run("plain", with({"weighting=equal"})), 0) << output_;
  ASSERT_EQ(run("secure", with({"weighting=equal", "aggregation={name: secagg, clip: 1, bits: 24}"})), 0) << output_;
  EXPECT_LT(largest_difference("plain", "secure"), 1e-3);
  ASSERT_EQ(run("local", with({"compression={up: [{name: local_gaussian, clip: 20, noise: 3}]}"})), 0) << output_;
  EXPECT_THAT(read(folder_ / "local" / "summary.json"), HasSubstr("differentially private"));
  // PATE: votes of Gaussian noise.
  ASSERT_EQ(
      run("pate", {"algorithm={name: ds_fl, send: votes, epochs: 1, batch_size: 16}", "rounds=1", "weighting=equal",
                   "selection=poisson", "aggregation={name: private_mean, noise: 2, clip: 17, copy: none}"}),
      0)
      << output_;
  EXPECT_THAT(read(folder_ / "pate" / "summary.json"),
              AllOf(HasSubstr("epsilon"), HasSubstr("Not covered: clients' own models")));
}

constexpr const char* kTwoNetworks =
    "clients.models=[{name: wide, share: 0.5, model: {fresh: {model_type: distilbert, dim: 24, n_layers: 2, n_heads: "
    "2, "
    "hidden_dim: 32, max_position_embeddings: 40}, tokenizer: models/chorus-mini}, tuning: {name: lora, rank: 2}}]";

// The same bytes as at the end of the run, also for a client whose network differs from the server's.
TEST_F(DistillationRun, OwnModelsAreExportedWithTheirNetwork) {
  ASSERT_EQ(run("a", {"rounds=1", kTwoNetworks, "checkpoint.client_models=true"}), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("clients' own models: " + (folder_ / "a" / "client_models").string()));
  std::set<std::string> types;
  for (const std::string client : {"0", "1", "2"}) {
    const fs::path saved = folder_ / "a" / "client_models" / client, exported = folder_ / ("exported" + client);
    const Chorus program({"model", "personal", (folder_ / "a").string(), client, "--to", exported.string()},
                         folder_ / "export.log");
    ASSERT_EQ(program.wait(), 0) << program.output();
    for (const char* file : {"config.json", "model.safetensors"}) {
      EXPECT_TRUE(read(saved / file) == read(exported / file)) << client << " " << file;
    }
    types.insert(json::parse(read(exported / "config.json")).at("model_type"));
  }
  EXPECT_EQ(types, (std::set<std::string>{"bert", "distilbert"}));
}

TEST_F(DistillationRun, MethodsWithoutAServerModelWriteNone) {
  ASSERT_EQ(run("a", {"algorithm={name: fedmd, epochs: 1}", "rounds=2"}), 0) << output_;
  for (const char* folder : {"model", "model_best", "client_models"}) EXPECT_FALSE(fs::exists(folder_ / "a" / folder));
  EXPECT_THAT(output_, AllOf(HasSubstr("the server has no model; a client's own: chorus model personal "),
                             HasSubstr("checkpoint.client_models: true"), Not(HasSubstr("model, metrics"))));
  ASSERT_EQ(run("b", {"algorithm={name: cronus, epochs: 1}", "rounds=1", "checkpoint.client_models=true"}), 0)
      << output_;
  EXPECT_FALSE(fs::exists(folder_ / "b" / "model"));
  EXPECT_TRUE(fs::exists(folder_ / "b" / "client_models" / "0" / "model.safetensors"));
  EXPECT_THAT(output_, HasSubstr("clients' own models: "));
}

// LoRA trains fewer layers' worth of gradients than the whole network.
TEST_F(DistillationRun, TheEmulatedClockKnowsTheClientsNetworks) {
  const auto seconds = [&](const char* name, const char* models) {
    EXPECT_EQ(run(name, {"rounds=1", "algorithm={name: ds_fl, epochs: 1}", "emulation={scale_depth: true}", models}), 0)
        << output_;
    return summary(name).at("emulated_seconds").get<double>();
  };
  const double whole = seconds("whole", "clients.models=[]");
  EXPECT_LT(
      seconds("lora",
              "clients.models=[{name: lora, share: 1, model: {fresh: {model_type: bert, hidden_size: 16, "
              "num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32, max_position_embeddings: 40}, "
              "tokenizer: models/chorus-mini}, tuning: {name: lora, rank: 2}}]"),
      0.95 * whole);
}

// Public batches have a size of their own.
TEST_F(DistillationRun, TheEmulatedClockCountsPublicTexts) {
  const auto seconds = [&](const std::string& size) {
    EXPECT_EQ(run("size" + size, {"rounds=1", "algorithm={name: ds_fl, epochs: 1, batch_size: " + size + "}",
                                  "emulation={scale_depth: true}"}),
              0)
        << output_;
    return summary("size" + size).at("emulated_seconds").get<double>();
  };
  const double one = seconds("1");
  EXPECT_NEAR(seconds("8"), one, 1e-6 * one);
  EXPECT_NEAR(seconds("64"), one, 1e-6 * one);
}

// A method's asks, public texts and networks, not one training.
TEST_F(DistillationRun, APlanPredictsTheEmulatedTime) {
  for (const char* algorithm : {"{name: fedid, epochs: 2, batch_size: 16}", "{name: mhat, epochs: 2, batch_size: 16}",
                                "{name: fedmd, epochs: 1, batch_size: 16}"}) {
    const std::vector<std::string> settings{std::string("algorithm=") + algorithm, "trainer.epochs=2",
                                            "emulation={scale_depth: true, latency: 0.05}", kTwoNetworks};
    fs::remove_all(folder_ / "run");
    ASSERT_EQ(run("run", settings), 0) << output_;
    const double seconds = summary("run").at("emulated_seconds").get<double>();
    EXPECT_NEAR(plan(settings).at("emulated_seconds").get<double>(), seconds, 0.02 * seconds) << algorithm;
  }
}

// A secure sum begins with training, and its replies do not say how much.
TEST_F(DistillationRun, APlanCountsTrainingUnderASecureSum) {
  const std::vector<std::string> settings{"algorithm={name: mhat, epochs: 1, batch_size: 16}", "trainer.epochs=4",
                                          "emulation={scale_depth: true, latency: 0.05}", "weighting=equal",
                                          "aggregation={name: secagg, clip: 1, bits: 24}"};
  ASSERT_EQ(run("run", settings), 0) << output_;
  const double seconds = summary("run").at("emulated_seconds").get<double>();
  EXPECT_NEAR(plan(settings).at("emulated_seconds").get<double>(), seconds, 0.02 * seconds);
}

// One of three clients in a round on average: the first of seed 2 has none.
TEST_F(DistillationRun, APlanBearsRoundsWithoutClients) {
  const json plan_of_poisson =
      plan({"algorithm={name: mhat, epochs: 1, batch_size: 16}", "emulation={scale_depth: true}", "clients_per_round=1",
            "selection={name: poisson, secret: false}", "evaluation.per_client=false", "seed=2"});
  EXPECT_GT(plan_of_poisson.at("emulated_seconds").get<double>(), 0);
  const json noised = plan({"algorithm={name: ds_fl, send: votes, epochs: 1, batch_size: 16}", "weighting=equal",
                            "selection=poisson", "emulation={scale_depth: true}", "clients_per_round=1",
                            "aggregation={name: private_mean, noise: 2, clip: 17, copy: none}"});
  EXPECT_GT(noised.at("round_bytes_down").get<double>(), 0) << noised;
}

TEST_F(DistillationRun, APlanKnowsTheLargestNetwork) {
  const auto memory = [&](const char* models) {
    return plan({"algorithm={name: ds_fl, epochs: 1}", models}).at("client_memory").get<double>();
  };
  EXPECT_GT(
      memory("clients.models=[{name: wide, share: 0.4, model: {fresh: {model_type: distilbert, dim: 64, n_layers: 4, "
             "n_heads: 2, hidden_dim: 128, max_position_embeddings: 40}, tokenizer: models/chorus-mini}}]"),
      2 * memory("clients.models=[]"));
}

TEST_F(DistillationRun, MistakesAreExplained) {
  const std::string single = file("single.jsonl", "{\"text\": \"a boat\"}\n");
  const std::string other = file("other.jsonl", "{\"text\": \"a boat\", \"label\": \"no such topic\"}\n");
  EXPECT_THAT(refused({"public={query_share: 0.001, share: 0.4}"}), HasSubstr("is none"));
  EXPECT_THAT(refused({"public={unlabelled: [" + single + "], query: [" + other + "]}"}, 3),
              HasSubstr("no such topic"));
  EXPECT_THAT(refused({"data.train=['formulation=pair_classification,examples=200,test_examples=20,seed=1']",
                       "task={name: pair_classification, max_length: 24}", "public={unlabelled: [" + single + "]}"},
                      3),
              HasSubstr("single.jsonl"));
  EXPECT_THAT(refused({"clients.models=[{name: mine, share: 0.5, " + network(kGpt2) + "}]"}),
              AllOf(HasSubstr("clients.models: mine"), HasSubstr("have no sequence_classification head")));
  EXPECT_THAT(refused({"clients.models=[{name: mine, share: 0.5, model: {fresh: {model_type: t5, d_model: 16, d_kv: 8, "
                       "d_ff: 32, num_layers: 1, num_heads: 2}, tokenizer: " CHORUS_SOURCE_DIR
                       "/tests/golden/tokenizers/t5}}]"}),
              HasSubstr("clients.models: mine: t5 models have no sequence_classification head"));
  EXPECT_THAT(refused({"public={unlabelled: [nowhere.jsonl]}"}, 3), HasSubstr("nowhere.jsonl: no such file"));
  EXPECT_THAT(refused({"public={unlabelled: [" + single + "], query: [nowhere.jsonl]}"}, 3),
              HasSubstr("nowhere.jsonl: no such file"));
  EXPECT_THAT(refused({"public.query_share=0"}), HasSubstr("needs labelled examples at the server"));
  EXPECT_THAT(refused({"algorithm={name: ds_fl, text_loss: 0.5}"}),
              HasSubstr("only language models can learn from public texts alone"));
  EXPECT_THAT(refused({"algorithm={name: ds_fl, text_loss: 1.5}"}), HasSubstr("algorithm.text_loss"));
  EXPECT_THAT(refused({kTexts, kUniform, gpt2(kGpt2), "task={name: causal_lm, block_length: 16}"}),
              HasSubstr("task.block_length: a row mixes several public texts"));
  EXPECT_THAT(refused({"data.train=['formulation=seq2seq,examples=60,test_examples=20,seed=5']", kUniform,
                       "task={name: seq2seq, max_length: 16}",
                       "model={fresh: {model_type: t5, d_model: 16, d_kv: 8, d_ff: 32, num_layers: 1, num_heads: 2, "
                       "decoder_start_token_id: 0, pad_token_id: 0, eos_token_id: 1}, "
                       "tokenizer: " CHORUS_SOURCE_DIR "/tests/golden/tokenizers/t5}"}),
              HasSubstr("no predictions that clients could exchange"));
}

// Predictions of different networks are compared class by class.
TEST_F(DistillationRun, ClientsNetworksAnswerForTheServersLabels) {
  ASSERT_EQ(run("a", {"rounds=1", "algorithm={name: ds_fl, epochs: 1}"}), 0) << output_;
  const fs::path file = folder_ / "a" / "model" / "config.json";
  json config = json::parse(read(file));
  const std::string first = config["id2label"]["0"], second = config["id2label"]["1"];
  const auto named = [&](const std::string& zero, const std::string& one) {
    config["id2label"] = {{"0", zero}, {"1", one}};
    config["label2id"] = {{zero, 0}, {one, 1}};
    std::ofstream(file) << config.dump();
    return "clients.models=[{name: mine, share: 0.5, model: {from: " + (folder_ / "a" / "model").string() + "}}]";
  };
  EXPECT_THAT(refused({named("cat", "dog")}, 3),
              AllOf(HasSubstr("clients.models: mine: "),
                    HasSubstr("the labels cat, dog, but the data has the labels " + first + ", " + second)));
  EXPECT_EQ(run("swapped", {named(second, first), "rounds=1"}), 0) << output_;
}

// One of a single word, first and alone in a batch.
TEST_F(DistillationRun, PublicTextsWithoutAWordToPredictAreLeftOut) {
  std::string lines = "{\"text\": \"alone\"}\n";
  for (int i = 0; i < 12; ++i) lines += "{\"text\": \"the cat sat on mat number " + std::to_string(i) + "\"}\n";
  const std::string good = file("good.jsonl", lines), bad = file("bad.jsonl", "{\"text\": \"alone\"}\n");
  const auto with = [&](const std::string& texts, const std::string& algorithm) {
    return std::vector<std::string>{kTexts,
                                    kUniform,
                                    "algorithm={name: " + algorithm + ", epochs: 1, batch_size: 1}",
                                    "task={name: causal_lm, max_length: 40}",
                                    gpt2("models/chorus-mini"),
                                    "public={unlabelled: [" + texts + "], query_share: 0.2, words: 20}",
                                    "rounds=1"};
  };
  for (const char* algorithm : {"fedid", "ds_fl"}) {
    ASSERT_EQ(run(algorithm, with(good, algorithm)), 0) << output_;
    EXPECT_THAT(output_, HasSubstr("good.jsonl: 1 of "));
    EXPECT_THAT(output_, HasSubstr("the first is \"alone\", example 0; they are left out"));
  }
  EXPECT_THAT(refused(with(bad, "ds_fl"), 3), HasSubstr("bad.jsonl: 1 of 1 text have no word to predict"));
}

// The networks have different vocabularies: WordPiece without case, and byte-level BPE.
TEST_F(DistillationRun, LanguageModelsWithDifferentTokenizersLearnFromEachOther) {
  const auto causal = [](const char* algorithm) {
    return std::vector<std::string>{kTexts,
                                    kUniform,
                                    std::string("algorithm=") + algorithm,
                                    "task={name: causal_lm, max_length: 160}",
                                    gpt2("models/chorus-mini"),
                                    std::string("clients.models=[{name: bytes, share: 0.5, ") + network(kGpt2) + "}]",
                                    "public={share: 0.4, query_share: 0.2, words: 50}",
                                    "trainer.epochs=2"};
  };
  for (const char* algorithm :
       {"{name: ds_fl, labels: soft, temperature: 1, epochs: 2}", "{name: fedid, preset: as_written, epochs: 2}"}) {
    fs::remove_all(folder_ / "causal");
    ASSERT_EQ(run("causal", causal(algorithm)), 0) << output_;
    EXPECT_THAT(read(folder_ / "causal" / "metrics.jsonl"), Not(HasSubstr("client_failed"))) << algorithm;
    const json scores = summary("causal");
    EXPECT_LT(scores.at("last").at("perplexity").get<double>(), 0.9 * first_score("causal", "perplexity")) << algorithm;
  }
  // Predictions alone teach how words begin, and the rest is forgotten.
  const double both = own_score("causal-both", causal("{name: ds_fl, labels: soft, temperature: 1, epochs: 2}"));
  const double predictions =
      own_score("causal-alone", causal("{name: ds_fl, labels: soft, temperature: 1, epochs: 2, text_loss: 0}"));
  EXPECT_LT(both, 0.7 * predictions);
  std::vector<std::string> cut = causal("ds_fl");
  cut.emplace_back("task={name: causal_lm, max_length: 32}");
  EXPECT_THAT(refused(cut), HasSubstr("raise it until no text is cut"));
  const std::vector<std::string> masked{kTexts, kUniform, "algorithm={name: mhat, labels: soft, epochs: 4}",
                                        "task={name: masked_lm, max_length: 40}", "trainer.epochs=2"};
  ASSERT_EQ(run("masked", masked), 0) << output_;
  EXPECT_LT(summary("masked").at("last").at("perplexity").get<double>(), first_score("masked", "perplexity"));
}

}  // namespace
}  // namespace chorus::inline integration
