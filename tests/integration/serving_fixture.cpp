#include "tests/integration/serving_fixture.h"

#include "core/base/rng.h"

namespace chorus::inline integration {
namespace {

constexpr const char* kCommon = R"(
name: served
seed: 5
encoding: {cache: none}
task: {name: text_classification, max_length: 16}
model:
  fresh: {model_type: bert, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32,
          max_position_embeddings: 20, hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1}
  tokenizer: SOURCE/models/chorus-mini
federation: {workers: 1, cohort_batch: 1}
)";
constexpr const char* kLabels[] = {"sea", "film", "food"};
constexpr const char* kWords[][4] = {
    {"boat", "harbour", "wave", "sailor"}, {"actor", "scene", "camera", "screen"}, {"bread", "salt", "oven", "recipe"}};
constexpr std::size_t kExamples[] = {9, 14, 6, 11};
constexpr const char* kNames[] = {"a", "b", "c", "d"};

std::string example(std::size_t client, std::size_t number) {
  RandomStream stream({.seed = 1, .purpose = "serving", .client = client, .step = number});
  const std::size_t label = (client + number) % std::size(kLabels);
  std::string text = "the";
  for (std::uint64_t i = 0; i < 3 + stream.below(6); ++i) text += std::string(" ") + kWords[label][stream.below(4)];
  return json{{"text", text}, {"label", kLabels[label]}}.dump() + "\n";
}

std::string replaced(std::string text, const std::string& word, const std::string& value) {
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word)) text.replace(at, word.size(), value);
  return text;
}

}  // namespace

ServingTest::ServingTest() : port_(21'000 + 2 * (::getpid() % 9'000)) {
  std::ofstream test(folder_ / "test.jsonl");
  for (std::size_t client = 0; client < std::size(kNames); ++client) {
    std::ofstream own(folder_ / (std::string(kNames[client]) + ".jsonl"));
    for (std::size_t i = 0; i < kExamples[client] + 5; ++i) (i < kExamples[client] ? own : test) << example(client, i);
  }
}

ServingTest::~ServingTest() = default;

int ServingTest::chorus(const std::vector<std::string>& arguments) {
  const Chorus program(arguments, folder_ / ("call" + std::to_string(calls_++) + ".log"));
  const int status = program.wait();
  output_ = program.output();
  return status;
}

void ServingTest::make_fleet(const std::vector<std::string>& names) {
  ASSERT_EQ(chorus({"fleet", "init", path("fleet"), "--address", "127.0.0.1:" + std::to_string(port_)}), 0) << output_;
  std::vector<std::string> words{"fleet", "invite", "-q", "--fleet", path("fleet")};
  words.insert(words.end(), names.begin(), names.end());
  ASSERT_EQ(chorus(words), 0) << output_;
  std::istringstream lines(output_);
  for (std::string line; std::getline(lines, line);) {
    const std::string token = line.substr(line.rfind(' ') + 1);
    tokens_[token.substr(0, token.find(':'))] = token;
  }
}

void ServingTest::write_config(const std::string& name, const std::string& more, bool server) {
  const std::string data = server ? "data: {test: [FOLDER/test.jsonl], labels: [sea, film, food]}\n"
                                  : "data: {train: [FOLDER/a.jsonl, FOLDER/b.jsonl, FOLDER/c.jsonl, FOLDER/d.jsonl], "
                                    "test: [FOLDER/test.jsonl], client_files: true, labels: [sea, film, food]}\n"
                                    "clients: {count: 0, partition: natural}\n";
  std::ofstream(folder_ / name) << replaced(replaced(kCommon + data + more, "SOURCE", CHORUS_SOURCE_DIR), "FOLDER",
                                            folder_.path().string());
}

std::unique_ptr<Child> ServingTest::serve(const std::string& name, const std::vector<std::string>& more) {
  std::vector<std::string> words{"serve", path("served.yaml"), "--fleet", path("fleet"), "--run-folder", path(name)};
  words.insert(words.end(), more.begin(), more.end());
  return std::make_unique<Child>(words, folder_ / ("serve" + std::to_string(calls_++) + ".log"));
}

std::unique_ptr<Child> ServingTest::join(const std::string& name, const std::vector<std::string>& more, bool once) {
  std::vector<std::string> words{"join",       "127.0.0.1:" + std::to_string(port_ + 1),
                                 "--token",    tokens_.at(name),
                                 "--data",     path(name + ".jsonl"),
                                 "--identity", path("identity_" + name)};
  if (once) words.push_back("--once");
  words.insert(words.end(), more.begin(), more.end());
  return std::make_unique<Child>(words, folder_ / (name + std::to_string(calls_++) + ".log"));
}

ServingTest::Clients ServingTest::join_four(const std::vector<std::string>& more) {
  Clients clients;
  for (const char* name : kNames) clients[name] = join(name, more);
  return clients;
}

void ServingTest::expect_success(const Clients& clients) {
  for (const auto& [name, client] : clients) EXPECT_EQ(client->wait(), 0) << name << client->output();
}

bool ServingTest::reaches(const std::string& run, int round) const {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < limit) {
    std::error_code gone;  // old ones go while this looks
    for (fs::directory_iterator file(folder_ / run / "checkpoints", gone), end; !gone && file != end;
         file.increment(gone)) {
      int found = 0;
      if (std::sscanf(file->path().filename().c_str(), "round_%d", &found) == 1 && found >= round) return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

json ServingTest::status() {
  if (chorus({"status", "--json", "--fleet", path("fleet")}) != 0) return {};
  return json::parse(output_, nullptr, false);
}

}  // namespace chorus::inline integration
