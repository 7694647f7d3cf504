// Every algorithm with real processes over gRPC: `chorus serve` and clients with their own files give the bits of
// `chorus run`. CHORUS_ALGORITHMS=all tries all of them (some minutes); else a few that differ in what clients keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/serving_fixture.h"

namespace chorus::inline integration {
namespace {

using testing::HasSubstr;

class ServingAlgorithms : public ServingTest {
 protected:
  ServingAlgorithms() {
    for (const char* name : {"public.jsonl", "queries.jsonl"}) fs::copy_file(folder_ / "test.jsonl", folder_ / name);
  }
  /// What an algorithm needs beside its name.
  static std::string settings(const std::string& name) {
    static const std::set<std::string> kDistillation{"calibrated", "cronus", "ds_fl", "feddf", "feded",
                                                     "fedid",      "fedkd",  "fedmd", "mhat"};
    if (kDistillation.contains(name)) {
      return "algorithm: {name: " + name +
             ", epochs: 1, batch_size: 4}\n"
             "public: {unlabelled: [FOLDER/public.jsonl], query: [FOLDER/queries.jsonl]}\n";
    }
    static const std::map<std::string, std::string> kSettings{
        {"adafl", "algorithm: adafl\ntuning: pfeiffer\nemulation: {}\n"},
        {"fedlora", "algorithm: fedlora\ntuning: {name: lora, rank: 4}\n"},
        {"local_parts", "algorithm: {name: local_parts, private: [norms]}\n"}};
    const auto found = kSettings.find(name);
    return found == kSettings.end() ? "algorithm: " + name + "\n" : found->second;
  }
  /// Why it cannot be served; empty: it can.
  static std::string reason(const std::string& name) {
    if (name == "centralized") return "trains on everybody's data in one place";
    if (name == "adafl") return "algorithm: adafl measures by the emulated clock of `emulation`, which `chorus run`";
    return "";
  }
  std::vector<std::string> names() {
    const char* wanted = std::getenv("CHORUS_ALGORITHMS");
    if (wanted == nullptr) return {"fedopt", "ditto", "ifca", "per_fedavg", "fedmd", "centralized", "adafl"};
    if (std::string(wanted) != "all") return {wanted};
    EXPECT_EQ(chorus({"list", "algorithm", "--json"}), 0);
    std::vector<std::string> all;
    for (const json& entry : json::parse(output_)) {
      if (entry["name"] != "fedbuff") all.push_back(entry["name"]);  // in the order of real clocks: FedBuffServing
    }
    return all;
  }
  /// What was measured of each round, without times and bytes: all that a server without a model has. (Clients score
  /// their own models on test examples of their own, which they have in a simulation only.)
  std::vector<std::string> measures(const std::string& run) const {
    std::vector<std::string> found;
    std::istringstream lines(read(folder_ / run / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      json event = json::parse(line);
      if (event["kind"] != "round") continue;
      for (auto field = event.begin(); field != event.end();) {
        const bool timed = field.key().find("seconds") != std::string::npos || field.key() == "time" ||
                           field.key().find("bytes") != std::string::npos;
        field = timed ? event.erase(field) : std::next(field);
      }
      found.push_back(event.dump());
    }
    return found;
  }
  /// Names and contents of all weights that a run leaves.
  std::map<std::string, std::string> models(const std::string& run) const {
    std::map<std::string, std::string> found;
    if (!fs::exists(folder_ / run / "model")) return found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / run / "model")) {
      if (entry.path().extension() == ".safetensors") found[entry.path().filename()] = read(entry.path());
    }
    return found;
  }
};

TEST_F(ServingAlgorithms, GiveTheSameBitsInProcesses) {
  make_fleet({"a", "b", "c", "d"});
  std::vector<std::unique_ptr<Child>> clients;
  for (const std::string& name : names()) {
    const std::string config = settings(name) +
                               "rounds: 3\nclients_per_round: 3\nserving: {clients: 4, min_clients: 3}\n"
                               "trainer: {batch_size: 4, optimizer: sgd, learning_rate: 0.1, clip: 0}\n";
    write_config("run.yaml", config, false);
    write_config("served.yaml", config, true);
    const std::string pooled = "pooled_" + name, served = "served_" + name;
    auto server = serve(served);
    if (!reason(name).empty()) {
      EXPECT_EQ(server->wait(), 2) << name;
      EXPECT_THAT(server->output(), HasSubstr(reason(name)));
      continue;
    }
    if (clients.empty()) {  // they stay for all runs
      for (const char* client : {"a", "b", "c", "d"}) clients.push_back(join(client, {}, false));
    }
    EXPECT_EQ(chorus({"run", path("run.yaml"), "--run-folder", path(pooled)}), 0) << name << output_;
    EXPECT_EQ(server->wait(), 0) << name << server->output();
    static const std::set<std::string> kNoModel{"local", "cronus", "fedmd"};
    EXPECT_EQ(models(pooled).empty(), kNoModel.contains(name)) << name;
    if (kNoModel.contains(name)) {
      EXPECT_THAT(server->output(), HasSubstr("no client has test examples")) << name;
    }
    EXPECT_TRUE(models(served) == models(pooled)) << name << server->output();
    EXPECT_EQ(measures(served), measures(pooled)) << name;
    EXPECT_GE(measures(served).size(), 3U) << name;
  }
}

// The configuration of an older run has defaults that are no longer written.
TEST_F(ServingAlgorithms, GoOnWithARunWhoseConfigurationHasUnusedShares) {
  std::string config = settings("fedid");
  for (auto at = config.find("FOLDER"); at != std::string::npos; at = config.find("FOLDER")) {
    config.replace(at, 6, folder_.path().string());
  }
  write_config("served.yaml", config + "rounds: 3\nclients_per_round: 2\n", true);
  make_fleet({"a", "b"});
  const fs::path resolved = folder_ / "served" / "config.yaml";
  const auto replace = [&](const std::string& line, const std::string& with) {
    std::string text = read(resolved);
    ASSERT_NE(text.find(line), std::string::npos) << text;
    std::ofstream(resolved) << text.replace(text.find(line), line.size(), with);
  };
  const auto running = [](const json&) { return true; };
  {
    const auto server = serve("served");
    ASSERT_TRUE(eventually(running)) << server->output();
  }
  replace("\n  share: ~\n", "\n  share: 0.5\n");
  replace("\n  query_share: ~\n", "\n  query_share: 0.1\n");
  {
    const auto server = serve("served", {"serving.grace=31"});
    ASSERT_TRUE(eventually(running)) << server->output();
  }
  EXPECT_THAT(read(resolved), HasSubstr("query_share: ~"));
  replace("\nrounds: 3\n", "\nrounds: many\n");
  const auto server = serve("served");
  EXPECT_EQ(server->wait(), 3);
  EXPECT_THAT(server->output(), testing::AllOf(HasSubstr("whose configuration cannot be read"), HasSubstr("many")));
}

}  // namespace
}  // namespace chorus::inline integration
