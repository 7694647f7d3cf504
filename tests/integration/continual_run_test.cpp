// A stream whose topics change: what clients do against forgetting shows in the scores of earlier segments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/rng.h"
#include "tests/integration/run_fixture.h"

namespace chorus::inline integration {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTopics[][5] = {{"sea", "boat", "harbour", "wave", "sailor"},
                                      {"film", "actor", "scene", "camera", "screen"},
                                      {"food", "bread", "salt", "oven", "recipe"},
                                      {"war", "army", "battle", "soldier", "sword"}};

/// Two topics in the first segment, two others in the second.
class ContinualRun : public RunTest {
 protected:
  ContinualRun() : RunTest(tiny_yaml(1, "checkpoint: {every: 1}\n")) {
    std::ofstream out(folder_ / "stream.jsonl"), test(folder_ / "test.jsonl");
    RandomStream stream({.seed = 1, .purpose = "stream"});
    for (int i = 0; i < 400; ++i) {
      const auto topic = 2 * static_cast<std::size_t>(i / 200) + stream.below(2);
      std::string text = "the";
      for (std::uint64_t k = 0; k < 4 + stream.below(4); ++k)
        text += std::string(" ") + kTopics[topic][1 + stream.below(4)];
      (i % 10 == 0 ? test : out) << json{{"text", text}, {"label", kTopics[topic][0]}, {"time", i / 200}}.dump()
                                 << '\n';
    }
  }
  std::vector<std::string> with(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"data={train: [" + (folder_ / "stream.jsonl").string() + "], test: [" +
                                     (folder_ / "test.jsonl").string() + "]}",
                                 "clients={count: 5, partition: uniform}",
                                 "continual={segments: {by: cuts, cuts: ['1']}, segment_test: 0.25}",
                                 "rounds=8",
                                 "clients_per_round=5",
                                 "model.fresh={model_type: bilstm, embedding_size: 16, hidden_size: 16, num_layers: 1}",
                                 "trainer={batch_size: 8, optimizer: adamw, learning_rate: 3e-2, clip: 0}",
                                 "evaluation.every=8"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  double first_segment(const std::string& name, std::size_t after) const {
    return summary(name).at("phases").at(after).at("last").at("segment 1").get<double>();
  }
};

TEST_F(ContinualRun, ReplayHoldsWhatTrainingOnNewTopicsForgets) {
  ASSERT_EQ(run("plain", with({"algorithm=fedavg"})), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("(negative: forgetting)"));
  ASSERT_EQ(run("replay", with({"algorithm=fedavg", "continual.replay=10"})), 0) << output_;
  EXPECT_GT(first_segment("plain", 0), 0.8) << "nothing was learnt";
  EXPECT_LT(first_segment("plain", 1), 0.3) << "nothing was forgotten";
  EXPECT_GT(first_segment("replay", 1), 0.8);
  run_and_kill("killed", with({"algorithm=fedavg", "continual.replay=10"}), 10);
  ASSERT_EQ(resume("killed"), 0) << output_;
  EXPECT_EQ(weights("killed"), weights("replay"));
  EXPECT_EQ(run("bad", with({"algorithm=fedavg", "continual.replay=-1"})), 2) << output_;
  EXPECT_THAT(output_, HasSubstr("continual.replay"));
}

TEST_F(ContinualRun, PenaltiesActFromTheSecondSegmentOnAndSurviveAKill) {
  ASSERT_EQ(run("plain", with({"algorithm=fedavg"})), 0) << output_;
  for (const std::string name : {"ewc", "lwf"}) {
    const std::string weight = name == "ewc" ? "lambda" : "weight";
    ASSERT_EQ(run(name + "0", with({"algorithm={name: " + name + ", " + weight + ": 0}"})), 0) << output_;
    EXPECT_EQ(weights(name + "0"), weights("plain")) << name;
    const auto how = with({"algorithm={name: " + name + ", " + weight + (name == "ewc" ? ": 1000}" : ": 3}")});
    ASSERT_EQ(run(name, how), 0) << output_;
    EXPECT_EQ(first_segment(name, 0), first_segment("plain", 0)) << name;
    EXPECT_NE(weights(name), weights("plain")) << name;
    const Chorus program(arguments("killed" + name, how), folder_ / "killed.log");
    wait_for_round("killed" + name, 10);
    program.send(SIGKILL);
    program.wait();
    ASSERT_EQ(resume("killed" + name), 0) << output_;
    EXPECT_EQ(weights("killed" + name), weights(name)) << name;
  }
}

}  // namespace
}  // namespace chorus::inline integration
