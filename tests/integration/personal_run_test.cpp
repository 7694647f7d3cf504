// Clients' own models as a user sees them: reports, newcomers, export, kill and resume.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/run_fixture.h"

namespace chorus::inline integration {
namespace {

using ::testing::HasSubstr;

class PersonalRun : public RunTest {
 protected:
  PersonalRun() : RunTest(tiny_yaml(1, "algorithm: {name: ditto}\ncheckpoint: {every: 1}\n")) {}
  std::string chorus(const std::vector<std::string>& arguments, int status = 0) {
    const Chorus program(arguments, folder_ / "command.log");
    EXPECT_EQ(program.wait(), status) << program.output();
    return program.output();
  }
  std::string own_weights(const std::string& name, const std::string& client) {
    chorus({"model", "personal", (folder_ / name).string(), client, "--to", (folder_ / (name + client)).string()});
    return read(folder_ / (name + client) / "model.safetensors");
  }
};

TEST_F(PersonalRun, ComparesModelsOnEachClientsOwnTestExamples) {
  ASSERT_EQ(run("a", {"clients.test_mix=same", "evaluation.personal={newcomers: 0.25, alone_passes: 1}",
                      "evaluation.per_client=true"}),
            0)
      << output_;
  EXPECT_THAT(output_, HasSubstr("on each client's own test examples"));
  EXPECT_THAT(output_, HasSubstr("newcomers"));
  const json spreads = summary("a").at("own_test");
  ASSERT_EQ(spreads.size(), 8U);  // four models, for trained clients and newcomers
  const json scores = json::parse(read(folder_ / "a" / "own_scores.json"));
  EXPECT_EQ(scores.at("metric"), "accuracy");
  // The report follows from the clients' scores.
  for (const json& spread : spreads) {
    double sum = 0, count = 0;
    for (const json& client : scores.at("clients")) {
      if (client.at("newcomer") != spread.at("newcomers")) continue;
      sum += client.at("scores").at(spread.at("model").get<std::string>()).get<double>();
      count += 1;
    }
    EXPECT_EQ(spread.at("clients"), count);
    EXPECT_NEAR(spread.at("mean").get<double>(), sum / count, 1e-9);
    EXPECT_LE(spread.at("worst_tenth"), spread.at("mean"));
    EXPECT_EQ(spread.contains("gain"), spread.at("model") != "global");
  }
  // Newcomers keep nothing, because they were never asked to train.
  std::set<int> newcomers;
  for (const json& client : scores.at("clients")) {
    if (client.at("newcomer")) newcomers.insert(client.at("client").get<int>());
  }
  EXPECT_EQ(newcomers.size(), 3U);
  for (const auto& file : fs::recursive_directory_iterator(folder_ / "a" / "clients")) {
    int client = -1, round = 0;
    if (std::sscanf(file.path().filename().c_str(), "%d@%d.safetensors", &client, &round) != 2) continue;
    EXPECT_FALSE(newcomers.contains(client)) << client;
  }
  EXPECT_THAT(read(folder_ / "a" / "own_scores.svg"), HasSubstr("<svg"));
  EXPECT_THAT(chorus({"compare", (folder_ / "a").string()}), HasSubstr("on clients' own test examples"));
  EXPECT_THAT(read(folder_ / "a" / "metrics.jsonl"), HasSubstr("\"split\":\"own models\""));
}

TEST_F(PersonalRun, OwnModelsSurviveAKillAndCanBeExported) {
  const std::vector<std::string> how{"algorithm=fedrep", "rounds=8", "clients.test_mix=same"};
  ASSERT_EQ(run("whole", how), 0) << output_;
  run_and_kill("killed", how, 3);
  ASSERT_EQ(resume("killed"), 0) << output_;
  EXPECT_EQ(scores("killed"), scores("whole"));
  EXPECT_EQ(read(folder_ / "killed" / "own_scores.json"), read(folder_ / "whole" / "own_scores.json"));
  for (const char* client : {"0", "7"}) {
    EXPECT_EQ(own_weights("killed", client), own_weights("whole", client)) << client;
  }
  EXPECT_NE(own_weights("whole", "0"), own_weights("whole", "7"));
  // Another process computes the same over the wire.
  std::vector<std::string> wired = how;
  wired.push_back("federation.transport=serialised");
  ASSERT_EQ(run("wired", wired), 0) << output_;
  EXPECT_EQ(read(folder_ / "wired" / "own_scores.json"), read(folder_ / "whole" / "own_scores.json"));
  EXPECT_THAT(chorus({"predict", "--model", (folder_ / "whole0").string()}), testing::Not(HasSubstr("error")));
}

// FjORD draws parts by round and client, so a killed run draws them again.
TEST_F(PersonalRun, FjordSurvivesAKillAndReportsMistakes) {
  const std::vector<std::string> how{"algorithm={name: heterofl, ordered: true, widths: [0.25, 0.5, 1]}", "rounds=12"};
  ASSERT_EQ(run("fjord", how), 0) << output_;
  ASSERT_EQ(run("heterofl", {"algorithm={name: heterofl, widths: [0.25, 0.5, 1]}", "rounds=12"}), 0) << output_;
  EXPECT_NE(weights("fjord"), weights("heterofl"));
  run_and_kill("killed_fjord", how, 3);
  ASSERT_EQ(resume("killed_fjord"), 0) << output_;
  EXPECT_EQ(weights("killed_fjord"), weights("fjord"));
  for (const std::string bad : {"widths: []", "widths: [0]", "widths: [1.5]", "depths: []", "depths: [-1]"}) {
    EXPECT_EQ(run("bad", {"algorithm={name: heterofl, ordered: true, " + bad + "}"}), 2) << bad << output_;
    EXPECT_THAT(output_, HasSubstr("algorithm." + bad.substr(0, 6)));
    EXPECT_FALSE(fs::exists(folder_ / "bad"));
  }
}

TEST_F(PersonalRun, LocalTrainingLeavesNoModelOfTheServer) {
  ASSERT_EQ(run("a", {"algorithm=local", "rounds=2"}), 0) << output_;
  EXPECT_FALSE(fs::exists(folder_ / "a" / "model"));
  EXPECT_FALSE(fs::exists(folder_ / "a" / "model_best"));
  EXPECT_THAT(output_, HasSubstr("the server has no model; a client's own: chorus model personal "));
  EXPECT_FALSE(own_weights("a", "3").empty());
  ASSERT_EQ(run("b", {"algorithm=fedper", "rounds=1"}), 0) << output_;
  EXPECT_THAT(read(folder_ / "b" / "model" / "README.md"), HasSubstr("The scores are of clients' own models"));
}

TEST_F(PersonalRun, ReportsMistakes) {
  EXPECT_EQ(run("a", {"algorithm={name: fedper, private: [pooler9]}"}), 2);
  EXPECT_THAT(output_, HasSubstr("\"pooler9\" matches nothing that trains"));
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  for (const std::string name : {"fedper", "lg_fedavg", "fedbn", "local_parts", "fedrep"}) {
    EXPECT_EQ(run("a", {"algorithm={name: " + name + ", shared: [layer9, head]}"}), 2) << name << output_;
    EXPECT_THAT(output_, HasSubstr("algorithm.shared: \"layer9\" matches nothing that trains")) << name;
  }
  EXPECT_EQ(run("a", {"algorithm={name: fedper, private: [0], shared: [1]}"}), 2);
  EXPECT_THAT(output_, HasSubstr("algorithm.private and algorithm.shared are both given"));
  EXPECT_EQ(run("a", {"algorithm=local_parts"}), 2);
  EXPECT_THAT(output_, HasSubstr("private"));
  EXPECT_EQ(run("a", {"evaluation.personal={newcomers: 0.9}"}), 2);
  EXPECT_THAT(output_, HasSubstr("clients_per_round"));
  ASSERT_EQ(run("b", {"algorithm=fedavg", "rounds=1"}), 0) << output_;
  EXPECT_THAT(chorus({"model", "personal", (folder_ / "b").string(), "0"}, 2), HasSubstr("no models of their own"));
  ASSERT_EQ(run("c", {"rounds=1"}), 0) << output_;
  EXPECT_THAT(chorus({"model", "personal", (folder_ / "c").string(), "99"}, 2), HasSubstr("no client 99"));
}

}  // namespace
}  // namespace chorus::inline integration
