// Secure sums between processes: the same bits as one `chorus run` on everybody's data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/serving_fixture.h"

namespace chorus::inline integration {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kRun = "rounds: ROUNDS\nclients_per_round: 4\ntrainer: {batch_size: 4, learning_rate: 5.0e-3}\n";

std::string config_of(const std::string& rounds, const std::string& more) {
  std::string text = kRun;
  return text.replace(text.find("ROUNDS"), 6, rounds) + more;
}

TEST_F(ServingTest, SecureSumsAgainstAnActiveServerGiveTheBitsOfOneRun) {
  const std::string secure = "aggregation: {name: secagg_plus, server: active, clip: 4, bits: 24}\n";
  write_config("run.yaml", config_of("4", secure), false);
  write_config("served.yaml", config_of("4", secure + "serving: {clients: 4, min_clients: 3}\n"), true);
  ASSERT_EQ(chorus({"run", path("run.yaml"), "--run-folder", path("pooled")}), 0) << output_;
  make_fleet({"a", "b", "c", "d"});
  std::ofstream(folder_ / "policy.yaml")
      << "kind: policy\nallow: [{procedures: [train]}]\nsecure_aggregation: 2\nactive_server: true\n";
  auto server = serve("served");
  const auto clients = join_four({"--policy", path("policy.yaml")});
  EXPECT_EQ(server->wait(), 0) << server->output();
  expect_success(clients);
  EXPECT_THAT(server->output(), HasSubstr("secagg_plus (active server)"));
  EXPECT_THAT(clients.at("a")->output(), HasSubstr("the server sees sums of updates: secagg_plus (active server)"));
  EXPECT_FALSE(weights("pooled").empty());
  EXPECT_TRUE(weights("served") == weights("pooled")) << server->output();
  // Nothing but messages of the protocol left this machine.
  EXPECT_EQ(chorus({"egress", "list", "--identity", path("identity_a")}), 0);
  EXPECT_THAT(output_, HasSubstr("secure.message ("));
  EXPECT_THAT(output_, Not(HasSubstr("update (")));
  EXPECT_THAT(output_, Not(HasSubstr("loss=")));
  EXPECT_THAT(output_, HasSubstr("number of training examples: not stated"));
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "identity_a" / "runs")) {
    if (!entry.is_regular_file()) continue;
    EXPECT_THAT(read(entry.path()), Not(HasSubstr("secure.identity"))) << entry.path();
  }
}

// Error feedback is a state, and a client stores one with each of its replies to a sum.
TEST_F(ServingTest, ErrorFeedbackOfSecureSumsSurvivesAServerThatIsKilled) {
  const std::string secure = "aggregation: {name: secagg, clip: 4, bits: 24, keep: 0.2}\ncheckpoint: {every: 10}\n";
  write_config("run.yaml", config_of("60", secure), false);
  write_config("served.yaml", config_of("60", secure + "serving: {clients: 4, min_clients: 4}\n"), true);
  ASSERT_EQ(chorus({"run", path("run.yaml"), "--run-folder", path("pooled")}), 0) << output_;
  make_fleet({"a", "b", "c", "d"});
  auto server = serve("served");
  auto clients = join_four();
  ASSERT_TRUE(reaches("served", 20)) << server->output();
  EXPECT_TRUE(eventually([](const json& now) { return now["round"] >= 25; })) << server->output();
  server->send(SIGKILL);
  EXPECT_EQ(server->wait(), 128 + SIGKILL);
  server = serve("served");
  EXPECT_EQ(server->wait(), 0) << server->output();
  EXPECT_THAT(server->output(), HasSubstr("continues after round"));
  expect_success(clients);
  for (const auto& [name, client] : clients) {
    EXPECT_THAT(client->output(), Not(HasSubstr("no longer on its disk"))) << name;
  }
  EXPECT_FALSE(weights("pooled").empty());
  EXPECT_TRUE(weights("served") == weights("pooled")) << server->output();
}

// Half of the cohort would be enough for a mean.
TEST_F(ServingTest, NoRoundIsCountedWithFewerClientsThanASecureSumNeeds) {
  write_config("served.yaml",
               config_of("100000",
                         "aggregation: {name: secagg, clip: 4}\nserving: {clients: 4, deadline: 20, grace: 0.5, "
                         "return_seconds: 1}\n"),
               true);
  make_fleet({"a", "b", "c", "d"});
  auto server = serve("served");
  auto clients = join_four();
  ASSERT_TRUE(reaches("served", 2)) << server->output();
  for (const char* name : {"c", "d"}) {
    clients[name]->send(SIGKILL);
    (void)clients[name]->wait();
  }
  int round = 0;
  ASSERT_TRUE(eventually([&round](const json& now) {
    round = now["round"];
    return now["waiting_for"].get<std::string>().starts_with("clients: 2 of ");
  })) << server->output();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_EQ(status()["round"], round);
  EXPECT_EQ(status()["needed"], 3);
  clients["c"] = join("c");
  ASSERT_TRUE(reaches("served", round + 3)) << server->output();
  EXPECT_EQ(chorus({"stop", "--fleet", path("fleet")}), 0);
  EXPECT_EQ(server->wait(), 130) << server->output();
  EXPECT_THAT(server->output(), Not(HasSubstr("the model stays")));
  std::istringstream lines(read(folder_ / "served" / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object() || event["kind"] != "round") continue;
    EXPECT_GT(event["examples"], 0) << line;
  }
}

// Clients calibrate the noise to the budget themselves, and find that the server asks for no less.
TEST_F(ServingTest, NoiseOfABudgetIsWhatTheClientsWorkOut) {
  write_config("served.yaml",
               config_of("2",
                         "aggregation: {name: private_sum, epsilon: 8, delta: 1.0e-3, clip: 0.5, dropout: 0, copy: "
                         "none}\nweighting: equal\nserving: {clients: 4, min_clients: 4}\n"),
               true);
  make_fleet({"a", "b", "c", "d"});
  auto server = serve("served");
  auto clients = join_four();
  EXPECT_EQ(server->wait(), 0) << server->output();
  expect_success(clients);
  for (const auto& [name, client] : clients) {
    EXPECT_THAT(client->output(), Not(HasSubstr("refuses"))) << name;
  }
  EXPECT_THAT(server->output(), HasSubstr("within epsilon 8"));
  EXPECT_THAT(server->output(), Not(HasSubstr("abandoned")));
}

TEST_F(ServingTest, SecureSumsGoOnWithoutAClientThatDiesAndOwnersRefuseWeakerOnes) {
  write_config("served.yaml",
               config_of("3000",
                         "aggregation: {name: secagg_plus, clip: 4}\n"
                         "serving: {clients: 4, min_clients: 3, deadline: 20, grace: 0.5}\n"),
               true);
  make_fleet({"a", "b", "c", "d", "e"});
  std::ofstream(folder_ / "policy.yaml") << "kind: policy\nactive_server: true\n";
  auto server = serve("served");
  auto clients = join_four();
  fs::copy_file(folder_ / "a.jsonl", folder_ / "e.jsonl");
  clients["e"] = join("e", {"--policy", path("policy.yaml")});
  ASSERT_TRUE(reaches("served", 2)) << server->output();
  clients["d"]->send(SIGKILL);
  (void)clients["d"]->wait();
  int round = 0;
  ASSERT_TRUE(eventually([&round](const json& now) {
    round = now["round"];
    return now["refusals"].contains("e") &&
           std::any_of(now["clients"].begin(), now["clients"].end(),
                       [](const json& client) { return client["name"] == "d" && client["connected"] == false; });
  })) << server->output();
  for (const json& client : status()["clients"]) EXPECT_TRUE(client["examples"].is_null()) << client;
  EXPECT_THAT(status()["refusals"]["e"].get<std::string>(), HasSubstr("against an active server"));
  ASSERT_TRUE(reaches("served", round + 3)) << server->output();
  EXPECT_EQ(chorus({"stop", "--fleet", path("fleet")}), 0);
  EXPECT_EQ(server->wait(), 130) << server->output();
}

}  // namespace
}  // namespace chorus::inline integration
