// What a run leaves behind when it stops early, and what resuming makes of a run folder that is damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/integration/run_fixture.h"

namespace chorus::inline integration {
namespace {

using ::testing::HasSubstr;

TEST_F(RunTest, APhaseThatStopsAtItsTargetIsSummarizedByTheRoundsItRan) {
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> all{
        "data.train=['formulation=language_model,examples=600,test_examples=0,clients=30,seed=5']",
        "task={name: causal_lm, max_length: 24}",
        "model.fresh={model_type: lstm, embedding_size: 16, hidden_size: 16, num_layers: 1}",
        "clients={count: 0, partition: {name: natural, by: client}}",
        "continual={segments: {by: count, segments: 3}}",
        "rounds=4",
        "algorithm=fedavg",
        "trainer={batch_size: 8, optimizer: adamw, learning_rate: 1e-2}",
        "evaluation={metric: eval_loss}"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(run("whole", with({})), 0) << output_;
  const json phases = summary("whole").at("phases");
  ASSERT_EQ(phases.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(phases[i].at("first_round"), 1 + 4 * i);
    EXPECT_EQ(phases[i].at("rounds"), 4);
  }
  // A round of the second phase, not its last, that is better than all before it: the loss to stop at.
  double best = 1e9;
  int target_round = 0;
  for (const std::string& line : scores("whole")) {
    const json event = json::parse(line);
    if (event["kind"] != "evaluation") continue;
    const int round = event.at("round");
    const double loss = event.at("eval_loss");
    if (loss >= best) continue;
    best = loss;
    if (round < 5) continue;
    target_round = round;
    break;
  }
  ASSERT_TRUE(target_round >= 5 && target_round <= 7) << target_round;
  std::ostringstream target;
  target.precision(17);
  target << "evaluation.target=" << best;
  ASSERT_EQ(run("early", with({target.str()})), 0) << output_;
  const json early = summary("early");
  EXPECT_EQ(early.at("status"), "target_reached");
  EXPECT_EQ(early.at("rounds"), target_round);
  ASSERT_EQ(early.at("phases").size(), 2U);
  EXPECT_EQ(early["phases"][0].at("first_round"), 1);
  EXPECT_EQ(early["phases"][0].at("rounds"), 4);
  EXPECT_EQ(early["phases"][1].at("first_round"), 5);
  EXPECT_EQ(early["phases"][1].at("rounds"), target_round - 4);
}

// The server's model, and every client's own one, of two networks.
TEST_F(RunTest, DistillationBetweenNetworksGoesOnWhereItWasKilled) {
  const std::vector<std::string> how{
      "public={}",
      "algorithm={name: fedid, epochs: 1, batch_size: 16}",
      "rounds=4",
      "clients.models=[{name: wide, share: 0.5, model: {fresh: {model_type: distilbert, dim: 24, n_layers: 1, n_heads: "
      "2, hidden_dim: 32, max_position_embeddings: 40}, tokenizer: models/chorus-mini}}]",
      "evaluation.per_client=true",
      "checkpoint={every: 1, client_models: true}"};
  ASSERT_EQ(run("whole", how), 0) << output_;
  run_and_kill("killed", how, 2);
  ASSERT_EQ(resume("killed"), 0) << output_;
  EXPECT_EQ(weights("whole"), weights("killed"));
  EXPECT_EQ(scores("whole"), scores("killed"));
  std::set<std::string> types;
  for (const auto& client : fs::directory_iterator(folder_ / "whole" / "client_models")) {
    const fs::path same = folder_ / "killed" / "client_models" / client.path().filename();
    EXPECT_EQ(read(client.path() / "model.safetensors"), read(same / "model.safetensors")) << client.path();
    types.insert(json::parse(read(client.path() / "config.json")).at("model_type"));
  }
  EXPECT_EQ(types, (std::set<std::string>{"bert", "distilbert"}));
}

TEST_F(RunTest, EventsOfARoundAreInTheLogBeforeItsCheckpoint) {
  ASSERT_EQ(run("whole", {"rounds=30"}), 0) << output_;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::string name = "killed" + std::to_string(attempt);
    run_and_kill(name, {"rounds=30"}, 3 + 4 * attempt);
    const int round = newest_round(name);
    int trained = 0, evaluated = 0;
    std::ifstream file(folder_ / name / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json event = json::parse(line, nullptr, false);
      if (event.is_discarded()) continue;  // being written when the process was killed
      if (event["kind"] == "round") trained = std::max<int>(trained, event["round"]);
      if (event["kind"] == "evaluation") evaluated = std::max<int>(evaluated, event["round"]);
    }
    EXPECT_GE(trained, round) << name;
    EXPECT_GE(evaluated, round) << name;
    // Rounds after the checkpoint are dropped from the log and trained again.
    ASSERT_EQ(resume(name), 0) << output_;
    EXPECT_EQ(scores(name), scores("whole")) << name;
    EXPECT_EQ(weights(name), weights("whole")) << name;
  }
}

TEST_F(RunTest, ADamagedClientStateIsNeverResumedFrom) {
  const int rounds = 12;  // enough that none is finished before it is killed
  const std::string longer = "rounds=" + std::to_string(rounds);
  ASSERT_EQ(run("whole", {longer}), 0) << output_;
  const std::string bits = weights("whole");
  const auto newest_state = [&](const std::string& name) {
    fs::path newest;
    int last = -1;
    for (const auto& file : fs::recursive_directory_iterator(folder_ / name / "clients")) {
      int client = 0, round = 0;
      if (std::sscanf(file.path().filename().c_str(), "%d@%d.safetensors", &client, &round) == 2 && round > last) {
        newest = file.path();
        last = round;
      }
    }
    return newest;
  };
  const std::pair<const char*, std::function<void(const fs::path&)>> damages[] = {
      {"deleted", [](const fs::path& path) { fs::remove(path); }},
      {"flipped",
       [](const fs::path& path) {
         std::string bytes = read(path);
         bytes.back() = static_cast<char>(bytes.back() ^ 1);
         std::ofstream(path, std::ios::trunc | std::ios::binary) << bytes;
       }},
      {"cut", [](const fs::path& path) { fs::resize_file(path, fs::file_size(path) - 4); }}};
  for (const auto& [name, damage] : damages) {
    run_and_kill(name, {longer}, 3);
    // The checkpoint and the states it needs; what came after it does not count.
    const int round = newest_round(name);
    fs::path state = newest_state(name);
    for (int r = round + 1; r <= rounds; ++r) {
      for (const auto& file : fs::recursive_directory_iterator(folder_ / name / "clients")) {
        if (file.path().filename().string().find("@" + std::to_string(r) + ".") != std::string::npos)
          fs::remove(file.path());
      }
      state = newest_state(name);
    }
    damage(state);
    // The checkpoint before it is whole: the run goes on from there to the same bits.
    ASSERT_EQ(resume(name), 0) << output_;
    EXPECT_THAT(output_, HasSubstr(state.filename().string())) << name;
    EXPECT_TRUE(fs::exists(folder_ / name / "checkpoints" / ("damaged_" + std::to_string(1000000 + round).substr(1))))
        << name;
    EXPECT_EQ(weights(name), bits) << name;
  }
  // With one checkpoint there is none to fall back to: one sentence, and nothing changes.
  run_and_kill("single", {longer, "checkpoint.keep=1"}, 3);
  for (const auto& file : fs::recursive_directory_iterator(folder_ / "single" / "clients")) {
    if (file.is_regular_file()) fs::resize_file(file.path(), fs::file_size(file.path()) - 4);
  }
  EXPECT_EQ(resume("single"), 3) << output_;
  EXPECT_THAT(output_, HasSubstr("start the run again"));
}

}  // namespace
}  // namespace chorus::inline integration
