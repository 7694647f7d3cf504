#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace chorus::inline integration {

namespace fs = std::filesystem;
using nlohmann::json;

inline std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// `chorus ARGUMENTS` as a child process, both streams into a file.
class Chorus {
 public:
  Chorus(const std::vector<std::string>& arguments, fs::path output, std::size_t file_limit = 0);
  void send(int signal) const { ::kill(child_, signal); }
  /// The exit status, or 128 + the signal that ended it.
  int wait() const {
    int status = 0;
    ::waitpid(child_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string output() const { return read(output_); }

 private:
  fs::path output_;
  pid_t child_ = -1;
};

inline constexpr int kRounds = 6;  // of this experiment
/// An experiment of seconds: 12 clients, a narrow BERT of so many layers. `more`: the algorithm and the checkpoints.
inline std::string tiny_yaml(int layers, const std::string& more) {
  return R"(
kind: experiment
name: tiny
seed: 3
data: {format: synthetic, train: ["formulation=text_classification,examples=240,test_examples=60,labels=4,seed=7"]}
encoding: {cache: none}
task: {name: text_classification, max_length: 32}
model:
  fresh: {model_type: bert, hidden_size: 16, num_hidden_layers: )" +
         std::to_string(layers) + R"(, num_attention_heads: 2, intermediate_size: 32,
          max_position_embeddings: 40, hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1}
  tokenizer: models/chorus-mini
clients: {count: 12, partition: {name: label_dirichlet, alpha: 0.5}}
rounds: 6
clients_per_round: 4
trainer: {batch_size: 8, optimizer: sgd, learning_rate: 0.2, clip: 0}
federation: {workers: 1, cohort_batch: 2}
)" + more;
}

class RunTest : public ::testing::Test {
 protected:
  explicit RunTest(const std::string& yaml = tiny_yaml(1, "algorithm: {name: scaffold}\ncheckpoint: {every: 1}\n")) {
    std::string pattern = (fs::temp_directory_path() / "chorus_run_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    std::ofstream(folder_ / "tiny.yaml") << yaml;
    ::setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);  // for copies of ledgers
  }
  ~RunTest() override { fs::remove_all(folder_); }

  std::vector<std::string> arguments(const std::string& name, std::vector<std::string> overrides = {}) const {
    std::vector<std::string> words{"run", (folder_ / "tiny.yaml").string(), "--run-folder", (folder_ / name).string()};
    words.insert(words.end(), overrides.begin(), overrides.end());
    return words;
  }
  int run(const std::string& name, const std::vector<std::string>& overrides = {}) {
    const Chorus program(arguments(name, overrides), folder_ / (name + ".log"));
    const int status = program.wait();
    output_ = program.output();
    return status;
  }
  int resume(const std::string& name) {
    const Chorus program({"resume", (folder_ / name).string()}, folder_ / (name + ".log"));
    const int status = program.wait();
    output_ = program.output();
    return status;
  }
  /// Starts a run and kills it as soon as it has a checkpoint of this round.
  void run_and_kill(const std::string& name, const std::vector<std::string>& overrides, int round) const {
    const Chorus program(arguments(name, overrides), folder_ / (name + ".log"));
    wait_for_round(name, round);
    program.send(SIGKILL);
    program.wait();
  }
  std::string weights(const std::string& name) const { return read(folder_ / name / "model" / "model.safetensors"); }
  /// The round of the newest checkpoint; 0 without one.
  int newest_round(const std::string& name) const {
    int newest = 0;
    std::error_code gone;  // old ones go while this looks
    for (fs::directory_iterator file(folder_ / name / "checkpoints", gone), end; !gone && file != end;
         file.increment(gone)) {
      int round = 0;
      if (std::sscanf(file->path().filename().c_str(), "round_%d", &round) == 1) newest = std::max(newest, round);
    }
    return newest;
  }
  /// Until there is a checkpoint of this round or a later one.
  void wait_for_round(const std::string& name, int round) const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (newest_round(name) < round) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << name << " came to no round " << round;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// Between the weights of two runs.
  double largest_difference(const std::string& one, const std::string& other) const {
    const std::string a = weights(one), b = weights(other);
    EXPECT_EQ(a.size(), b.size());
    std::uint64_t header = 0;
    std::memcpy(&header, a.data(), sizeof header);
    double largest = 0;
    for (std::size_t at = sizeof header + header; at + sizeof(float) <= std::min(a.size(), b.size());
         at += sizeof(float)) {
      float x = 0, y = 0;
      std::memcpy(&x, a.data() + at, sizeof x);
      std::memcpy(&y, b.data() + at, sizeof y);
      largest = std::max(largest, std::abs(static_cast<double>(x) - static_cast<double>(y)));
    }
    return largest;
  }
  json summary(const std::string& name) const { return json::parse(read(folder_ / name / "summary.json")); }
  /// What was measured, without times.
  std::vector<std::string> scores(const std::string& name) const {
    std::vector<std::string> lines;
    std::ifstream file(folder_ / name / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      json event = json::parse(line);
      if (event["kind"] != "evaluation" && event["kind"] != "round") continue;
      event.erase("time");
      event.erase("seconds");
      for (const char* part : {"seconds_local", "seconds_server", "seconds_clients", "seconds_last"}) event.erase(part);
      event.erase("training_seconds");
      lines.push_back(event.dump());
    }
    return lines;
  }

  fs::path folder_;
  std::string output_;
};

}  // namespace chorus::inline integration
