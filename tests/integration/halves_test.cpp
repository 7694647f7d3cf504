// A server and its clients, each with its own configuration and its own files, over a transport: the same bits as one
// `chorus run` on everybody's data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "apps/experiment/client_half.h"
#include "apps/experiment/own_data.h"
#include "apps/experiment/run_experiment.h"
#include "apps/experiment/server_half.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/config/config.h"
#include "core/console/quiet_console.h"
#include "core/device/torch_runtime.h"
#include "core/files/files.h"
#include "infrastructure/remote/client_service.h"
#include "infrastructure/remote/remote_federation.h"
#include "infrastructure/tracking/metrics_log.h"
#include "tests/any_transport.h"
#include "tests/support.h"

namespace chorus::inline integration {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Everything of a configuration but the data: server and clients have it in common.
constexpr const char* kCommon = R"(
name: halves
seed: 5
encoding: {cache: none}
task: {name: text_classification, max_length: 16}
model:
  fresh: {model_type: bert, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32,
          max_position_embeddings: 20, hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1}
  tokenizer: SOURCE/models/chorus-mini
rounds: 3
clients_per_round: 3
trainer: {batch_size: 4, learning_rate: 5.0e-3}
evaluation: {per_client: true}
federation: {workers: 1, cohort_batch: 1}
checkpoint: {every: 1}
)";
constexpr const char* kLabels[] = {"sea", "film", "food"};
constexpr const char* kWords[][4] = {
    {"boat", "harbour", "wave", "sailor"}, {"actor", "scene", "camera", "screen"}, {"bread", "salt", "oven", "recipe"}};
constexpr std::size_t kExamples[] = {9, 14, 6, 11};  // of each client
constexpr std::size_t kClients = std::size(kExamples);

std::string line(std::size_t client, std::size_t number, const char* client_name) {
  RandomStream stream({.seed = 1, .purpose = "halves", .client = client, .step = number});
  // The labels first occur in the order of kLabels over all clients, in another one at most of them.
  const std::size_t label = (client + number) % std::size(kLabels);
  std::string text = "the";
  for (std::uint64_t i = 0; i < 3 + stream.below(6); ++i) text += std::string(" ") + kWords[label][stream.below(4)];
  nlohmann::json json{{"text", text}, {"label", kLabels[label]}};
  if (client_name != nullptr) json["client"] = client_name;
  return json.dump() + "\n";
}

/// The same examples in everybody's files and in one pooled pair.
class HalvesTest : public testing::Test {
 protected:
  HalvesTest() {
    std::ofstream train(folder_ / "train.jsonl"), test(folder_ / "test.jsonl");
    for (std::size_t client = 0; client < kClients; ++client) {
      const std::string name = "client" + std::to_string(client);
      std::ofstream own(folder_ / (name + ".jsonl")), own_test(folder_ / (name + "_test.jsonl"));
      for (std::size_t i = 0; i < kExamples[client] + 5; ++i) {
        const bool training = i < kExamples[client];
        (training ? train : test) << line(client, i, name.c_str());
        (training ? own : own_test) << line(client, i, nullptr);
      }
    }
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  ExperimentConfig config(const std::string& data, const std::vector<std::string>& overrides = {}) const {
    std::string text = kCommon + data + "\n";
    for (const auto& [word, value] :
         {std::pair<std::string, std::string>{"SOURCE", CHORUS_SOURCE_DIR}, {"FOLDER", folder_.path().string()}}) {
      for (auto at = text.find(word); at != std::string::npos; at = text.find(word))
        text.replace(at, word.size(), value);
    }
    return ConfigDocument::parse(text, "halves", overrides).load<ExperimentConfig>();
  }
  ExperimentConfig server_config(const std::vector<std::string>& overrides = {}) const {
    return config("data: {test: [FOLDER/test.jsonl], labels: [sea, film, food]}", overrides);
  }
  ExperimentConfig client_config(std::size_t client, const std::vector<std::string>& overrides = {}) const {
    const std::string name = "FOLDER/client" + std::to_string(client);
    return config("data: {train: [" + name + ".jsonl], test: [" + name + "_test.jsonl]}", overrides);
  }
  RunReport pooled_run(const std::vector<std::string>& overrides) const {
    const QuietConsole quiet;
    return run_experiment(config("data: {train: [FOLDER/train.jsonl], test: [FOLDER/test.jsonl]}\n"
                                 "clients: {count: 0, partition: natural}",
                                 overrides),
                          {.folder = folder_ / "run"});
  }

  TemporaryFolder folder_;
};

/// A client's process: all it gets from the server is the text of the facts and what travels.
class ClientProcess {
 public:
  ClientProcess(const ExperimentConfig& config, const std::string& facts, ClientId id, Transport& transport)
      : model_(config, parse_task_facts(facts)),
        data_(open_client_data(config.data, model_.facts())),
        half_({.model = model_,
               .examples = own_examples(model_, data_, id),
               .rounds = static_cast<std::uint64_t>(config.rounds),
               .states = {[this](ClientId) { return state_; },
                          [this](ClientId, std::uint64_t, ClientState kept) { state_ = std::move(kept); }}}),
        end_(transport.connect()),
        service_([this] { ClientService(*end_, half_.clients()).run(); }) {}
  /// Once the server is gone.
  ~ClientProcess() { service_.join(); }
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

 private:
  TaskModel model_;
  Dataset data_;
  ClientState state_;
  ClientHalf half_;
  std::unique_ptr<ClientTransport> end_;
  std::thread service_;
};

struct Events : Tracker {
  void record(const Event& event) override { all.push_back(event); }
  std::vector<Event> all;
};

/// Scores by round, without times.
std::vector<std::map<std::string, double>> scores_of(const std::vector<Event>& events) {
  std::vector<std::map<std::string, double>> result;
  for (const Event& event : events) {
    if (event.kind.find("evaluation") == std::string::npos) continue;
    result.push_back(event.numbers);
    result.back().erase("seconds");
  }
  return result;
}

using TransportAndOverrides = std::tuple<std::string, std::vector<std::string>>;

class SameBits : public HalvesTest, public testing::WithParamInterface<TransportAndOverrides> {};

TEST_P(SameBits, AsOneRunOnEverybodysData) {
  const auto& [transport_name, overrides] = GetParam();
  const auto transport = any_transport(transport_name);
  if (!transport) GTEST_SKIP() << "there is no mosquitto";
  const RunReport pooled = pooled_run(overrides);

  const QuietConsole quiet;
  const TorchThreads one(1);
  const ExperimentConfig config = server_config(overrides);
  const Dataset data = open_server_data(config.data);
  EXPECT_TRUE(data.split(Split::kTrain).empty());
  const TaskModel model(config, TaskFacts::of(data));
  const ServerHalf server(model, own_test_set(model, data));
  std::vector<std::unique_ptr<ClientProcess>> clients;
  auto end = transport->listen();  // goes first: then the clients stop
  for (std::size_t client = 0; client < kClients; ++client) {
    clients.push_back(std::make_unique<ClientProcess>(client_config(client, overrides), to_json(model.facts()),
                                                      static_cast<ClientId>(client), *transport));
  }
  RunState state;
  state.loop.model = server.start();
  Events events;
  {
    RemoteFederation remote({*end, 1, model.layout()});
    ASSERT_TRUE(remote.wait_for(kClients, 60));
    EXPECT_EQ(server.run(remote, {.last = config.rounds, .total = config.rounds, .tracker = events}, state),
              RoundLoopEnd::kFinished);
  }
  end.reset();
  clients.clear();
  server.save_model(folder_ / "separate", state.loop.model, state.variant);

  EXPECT_EQ(state.loop.round, 3);
  for (const Event& event : events.all) EXPECT_NE(event.kind, "client_failed") << event.texts.at("reason");
  EXPECT_FALSE(state.loop.model.equal(server.start())) << "nothing was learnt";
  EXPECT_EQ(state.loop.examples, pooled.summary.examples);
  EXPECT_EQ(read_file(folder_ / "separate" / "model.safetensors"),
            read_file(folder_ / "run" / "model" / "model.safetensors"));
  const auto scores = scores_of(events.all);
  EXPECT_GE(scores.size(), 4U) << "before the first round and after each";
  EXPECT_EQ(scores, scores_of(read_events(folder_ / "run" / "metrics.jsonl")));
}

INSTANTIATE_TEST_SUITE_P(
    Halves, SameBits,
    testing::Combine(
        testing::ValuesIn(Transports::names()),
        testing::Values(std::vector<std::string>{},
                        // What a client remembers between rounds stays with it.
                        std::vector<std::string>{"algorithm=scaffold", "trainer.optimizer=sgd", "trainer.clip=0",
                                                 "trainer.learning_rate=0.2"},
                        // Filters at both ends with error feedback, and frozen weights that each side loads for itself.
                        std::vector<std::string>{"tuning=lora", "compression.up=[{name: ecq, bits: 4}]",
                                                 "selection=weighted"},
                        // Activations and gradients of every batch, within a session.
                        std::vector<std::string>{"algorithm={name: splitfed, layers: 1}", "trainer.clip=0"},
                        std::vector<std::string>{"algorithm={name: splitnn, layers: 0, labels: client, noise: 0.01}",
                                                 "trainer.clip=0", "compression.up=[{name: uniform, bits: 8}]",
                                                 "compression.down=[{name: uniform, bits: 8}]"})));

TEST_F(HalvesTest, AClientWithALabelThatTheServerDoesNotKnowIsRefused) {
  const ExperimentConfig config = server_config();
  const Dataset data = open_server_data(config.data);
  const TaskModel server(config, TaskFacts::of(data));
  std::ofstream(path("client2.jsonl")) << R"({"text": "the vote in parliament", "label": "politics"})" << '\n';
  const TaskModel model(client_config(2), parse_task_facts(to_json(server.facts())));
  const Dataset own = open_client_data(client_config(2).data, model.facts());
  EXPECT_THAT(message_of<DataError>([&] { own_examples(model, own, 2); }),
              AllOf(HasSubstr("'politics', which the task does not know (it knows sea, film, food)"),
                    HasSubstr("data.labels")));
}

TEST_F(HalvesTest, AClientWithAnotherNetworkIsRefused) {
  const ExperimentConfig config = server_config({"tuning=lora"});
  const Dataset data = open_server_data(config.data);
  const TaskModel server(config, TaskFacts::of(data));
  const TaskFacts facts = parse_task_facts(to_json(server.facts()));
  const auto refused = [&](const std::vector<std::string>& overrides, const TaskFacts& told) {
    return message_of<DataError>([&] { TaskModel(client_config(0, overrides), told); });
  };
  EXPECT_EQ(refused({"tuning=lora"}, facts), kNothingThrown);
  EXPECT_THAT(refused({"tuning=full"}, facts), HasSubstr("the network is not the server's"));
  EXPECT_THAT(refused({"tuning=lora", "model.fresh.hidden_size=32"}, facts),
              HasSubstr("the network is not the server"));
  EXPECT_THAT(refused({"tuning=lora", "seed=6"}, facts), HasSubstr("do not train have other values"))
      << "frozen values never travel";
  TaskFacts other = facts;
  other.tokenizer ^= 1;
  EXPECT_THAT(refused({"tuning=lora"}, other), HasSubstr("the tokenizer is not the server's"));
  other = facts;
  other.labels.pop_back();
  EXPECT_THAT(refused({"tuning=lora"}, other), HasSubstr("the network is not the server's")) << "a smaller head";
}

TEST_F(HalvesTest, AClientThatNeverComparedIsRefusedWhenItIsAsked) {
  const ExperimentConfig config = server_config();
  const Dataset data = open_server_data(config.data);
  const TaskModel server(config, TaskFacts::of(data));
  const TaskModel model(client_config(0, {"model.fresh.hidden_size=32"}), TaskFacts::of(data));
  const Dataset own = open_client_data(client_config(0).data, TaskFacts::of(data));
  ClientHalf half({.model = model, .examples = own_examples(model, own, 0)});
  Request request{.procedure = "train", .round = 1};
  request.layout = server.layout();
  request.body.tensors["model"] = server.params().values()[0];
  const std::vector<ClientId> cohort{0};
  for (const Reply& reply : half.clients().ask(cohort, request)) EXPECT_THAT(reply.failure, HasSubstr("network"));
}

TEST_F(HalvesTest, AClientWithoutExamplesIsRefused) {
  const ExperimentConfig config = server_config();
  const Dataset data = open_server_data(config.data);
  const TaskFacts facts = TaskFacts::of(data);
  EXPECT_THAT(message_of<ConfigError>([&] { open_client_data(config.data, facts); }), HasSubstr("give data.train"));
  std::ofstream(path("client0.jsonl")) << R"({"text": "", "label": "sea"})" << '\n';
  const TaskModel model(client_config(0), facts);
  const Dataset only_test = open_client_data(client_config(0).data, facts);
  EXPECT_THAT(message_of<DataError>([&] { own_examples(model, only_test, 7); }),
              HasSubstr("client 7 has no training examples"));
}

TEST_F(HalvesTest, DataOfAnotherKindIsRefused) {
  const ExperimentConfig config = server_config();
  const TaskFacts facts = TaskFacts::of(open_server_data(config.data));
  std::ofstream(path("client0.conll")) << "Chorus B-org\nsings O\n\n";
  DataConfig words;
  words.train = {path("client0.conll")};
  words.format = "conll";
  EXPECT_THAT(message_of<DataError>([&] { open_client_data(words, facts); }), HasSubstr("text_classification"));
}

TEST_F(HalvesTest, AServerWithoutTestDataIsRefused) {
  EXPECT_THAT(message_of<ConfigError>([&] { open_server_data(client_config(0).data).size(); }), kNothingThrown);
  EXPECT_THAT(message_of<ConfigError>([&] { open_server_data(config("data: {train: [FOLDER/train.jsonl]}").data); }),
              HasSubstr("nothing to test on: give data.test"));
  const ExperimentConfig config = server_config();
  const Dataset data = open_server_data(config.data);
  const TaskModel model(config, TaskFacts::of(data));
  TestSet nothing = own_test_set(model, data);
  nothing.examples.clear();
  EXPECT_THAT(message_of<ConfigError>([&] { ServerHalf(model, nothing); }), HasSubstr("nothing to test on"));
}

}  // namespace
}  // namespace chorus::inline integration
