// Split learning as a user sees it: any cut gives the same run, over any transport, after any crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/run_fixture.h"

namespace chorus::inline integration {
namespace {

using ::testing::HasSubstr;

class SplitRun : public RunTest {
 protected:
  SplitRun() : RunTest(tiny_yaml(2, "algorithm: {name: splitfed, layers: 1}\ncheckpoint: {every: 1}\n")) {}
  // What the rounds' events say.
  std::vector<json> rounds(const std::string& name) const {
    std::vector<json> result;
    for (const std::string& line : scores(name)) {
      if (json event = json::parse(line); event["kind"] == "round") result.push_back(std::move(event));
    }
    return result;
  }
};

TEST_F(SplitRun, EqualsFedAvgAtEveryCut) {
  const std::vector<std::string> short_run{"rounds=2", "federation.cohort_batch=1", "evaluation.every=0"};
  const auto with = [&](const std::string& algorithm) {
    std::vector<std::string> how = short_run;
    how.push_back("algorithm=" + algorithm);
    return how;
  };
  ASSERT_EQ(run("fedavg", with("fedavg")), 0) << output_;
  int number = 0;
  for (const char* algorithm :
       {"{name: splitfed, layers: 0}", "{name: splitfed, layers: 2}", "{name: splitfed, layers: 1, labels: client}"}) {
    const std::string name = "split" + std::to_string(number++);
    ASSERT_EQ(run(name, with(algorithm)), 0) << output_;
    EXPECT_EQ(weights(name), weights("fedavg")) << algorithm;
    for (std::size_t i = 0; i < 2; ++i) {
      const json here = rounds(name).at(i), there = rounds("fedavg").at(i), first = rounds("split0").at(0);
      EXPECT_NEAR(here["loss"].get<double>(), there["loss"].get<double>(), 1e-6);
      // Activations and gradients of every token, float32; twice with labels at the client.
      const double each = 4 * 16 * here["tokens"].get<double>() * (number == 3 ? 2 : 1);
      EXPECT_EQ(here["activation_bytes_up"], each);
      EXPECT_EQ(here["activation_bytes_down"], each);
      EXPECT_GT(here["bytes_up"], each);
      EXPECT_GT(here["client_memory"], 0);
      EXPECT_EQ(here["client_parameters"].get<double>() + here["server_parameters"].get<double>(),
                first["client_parameters"].get<double>() + first["server_parameters"].get<double>());
    }
  }
  // Where clients are other processes' business, nothing changes.
  std::vector<std::string> wired = with("{name: splitfed, layers: 1}");
  wired.emplace_back("federation.transport=serialised");
  ASSERT_EQ(run("wired", wired), 0) << output_;
  EXPECT_EQ(weights("wired"), weights("fedavg"));
}

TEST_F(SplitRun, OneClientMakesAllMethodsEqual) {
  const auto one = [&](const std::string& name, const std::string& algorithm) {
    EXPECT_EQ(run(name, {"rounds=3", "clients_per_round=1", "evaluation.every=0", "algorithm=" + algorithm}), 0)
        << output_;
  };
  one("a", "{name: splitnn, layers: 1}");
  one("b", "{name: splitfed, layers: 1}");
  one("c", "{name: splitfed, layers: 1, version: 2}");
  one("d", "{name: splitnn, layers: 0, labels: client}");
  one("e", "fedavg");
  for (const char* other : {"b", "c", "d", "e"}) EXPECT_TRUE(weights("a") == weights(other)) << other;
}

TEST_F(SplitRun, SameBitsWithAnyNumberOfWorkersAndBatchOfClients) {
  int number = 0;
  for (const char* algorithm : {"{name: splitnn, layers: 1}", "{name: splitfed, layers: 1, version: 2}",
                                "{name: splitfed, layers: 0, labels: client}"}) {
    const std::string one = "one" + std::to_string(number), many = "many" + std::to_string(number++);
    ASSERT_EQ(run(one, {"rounds=2", "evaluation.every=0", std::string("algorithm=") + algorithm}), 0) << output_;
    ASSERT_EQ(run(many, {"rounds=2", "evaluation.every=0", std::string("algorithm=") + algorithm,
                         "federation={workers: 2, cohort_batch: 1}"}),
              0)
        << output_;
    EXPECT_TRUE(weights(one) == weights(many)) << algorithm;
  }
}

TEST_F(SplitRun, ResumesBitIdenticallyWithFiltersAndNoise) {
  const std::vector<std::string> how{"rounds=5", "algorithm={name: splitnn, layers: 1, noise: 0.01, decorrelate: 0.1}",
                                     "compression={up: [{name: uniform, bits: 8}], down: [{name: uniform, bits: 8}]}"};
  ASSERT_EQ(run("whole", how), 0) << output_;
  run_and_kill("killed", how, 2);
  ASSERT_EQ(resume("killed"), 0) << output_;
  EXPECT_EQ(scores("killed"), scores("whole"));
  EXPECT_EQ(weights("killed"), weights("whole"));
  EXPECT_THAT(output_, HasSubstr("client side: "));
  // Quantised activations: fewer bytes.
  const json last = rounds("whole").back();
  EXPECT_GT(last["up_ratio"].get<double>(), 3);
  EXPECT_GT(last["down_ratio"].get<double>(), 3);
  const Chorus audit({"privacy", "audit", (folder_ / "whole").string(), "--only", "activations"},
                     folder_ / "audit.log");
  EXPECT_EQ(audit.wait(), 0) << audit.output();
  EXPECT_THAT(audit.output(), HasSubstr("with noise 0.01"));
}

TEST_F(SplitRun, ReportsMistakesBeforeTheRun) {
  EXPECT_EQ(run("a", {"algorithm.layers=9"}), 2);
  EXPECT_THAT(output_, HasSubstr("algorithm.layers is 9, but the network has 2 layers; set it to 0 to 2"));
  EXPECT_EQ(run("a", {"algorithm={name: splitnn, layers: 3}"}), 2);
  EXPECT_THAT(output_, HasSubstr("algorithm.layers is 3, but the network has 2 layers; set it to 0 to 2"));
  EXPECT_EQ(run("a", {"algorithm={name: splitfed, version: 2, layers: 2, labels: client}"}), 2);
  EXPECT_THAT(output_, HasSubstr("set it to 0 to 1 (with labels: client the server needs a layer)"));
  EXPECT_EQ(run("a", {"trainer.clip=1"}), 2);
  EXPECT_THAT(output_, HasSubstr("trainer.clip"));
  EXPECT_EQ(run("a", {"model.fresh={model_type: bilstm, hidden_size: 8}"}), 2);
  EXPECT_THAT(output_, HasSubstr("cut apart"));
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  const Chorus plan({"plan", (folder_ / "tiny.yaml").string(), "--device-memory", "0.0001"}, folder_ / "plan.log");
  EXPECT_EQ(plan.wait(), 0) << plan.output();
  EXPECT_THAT(plan.output(), HasSubstr("cannot even hold the embeddings"));
  const Chorus negative({"plan", (folder_ / "tiny.yaml").string(), "--device-memory", "-1"}, folder_ / "plan.log");
  EXPECT_EQ(negative.wait(), 2) << negative.output();
  EXPECT_THAT(negative.output(), HasSubstr("--device-memory: Value -1 not in range 0.000001 to 1000000"));
}

}  // namespace
}  // namespace chorus::inline integration
