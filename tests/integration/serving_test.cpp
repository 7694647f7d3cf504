// `chorus serve` and `chorus join` as processes of their own: the same bits as one `chorus run` on everybody's data,
// whatever is killed in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "core/base/rng.h"
#include "tests/integration/serving_fixture.h"

namespace chorus::inline integration {
namespace {

using testing::HasSubstr;

constexpr const char* kTrainer = "trainer: {batch_size: 4, learning_rate: 5.0e-3}\n";
constexpr const char* kScaffold =
    "algorithm: scaffold\nrounds: 60\nclients_per_round: 3\n"
    "trainer: {batch_size: 4, optimizer: sgd, learning_rate: 0.2, clip: 0}\nserving: {clients: 4, min_clients: 3}\n";

TEST_F(ServingTest, KillsOfServerAndClientsChangeNoBit) {
  write_config("run.yaml", kScaffold, false);
  write_config("served.yaml", kScaffold, true);
  ASSERT_EQ(chorus({"run", path("run.yaml"), "--run-folder", path("pooled")}), 0) << output_;
  make_fleet({"a", "b", "c", "d"});
  auto server = serve("served");
  auto clients = join_four();
  for (const int round : {3, 12, 24}) {
    ASSERT_TRUE(reaches("served", round)) << server->output();
    server->send(SIGKILL);
    EXPECT_EQ(server->wait(), 128 + SIGKILL);
    if (round == 12) {
      clients["b"]->send(SIGKILL);
      EXPECT_EQ(clients["b"]->wait(), 128 + SIGKILL);
      clients["b"] = join("b");
    }
    server = serve("served");
  }
  ASSERT_TRUE(reaches("served", 36)) << server->output();
  clients["c"]->send(SIGKILL);
  EXPECT_EQ(clients["c"]->wait(), 128 + SIGKILL);
  clients["c"] = join("c");
  EXPECT_EQ(server->wait(), 0) << server->output();
  expect_success(clients);
  EXPECT_FALSE(weights("pooled").empty());
  EXPECT_TRUE(weights("served") == weights("pooled")) << server->output();
}

TEST_F(ServingTest, AClientThatIsStoppedWhileItTrainsEndsSoon) {
  write_config("served.yaml", "trainer: {steps: 1000000}\nclients_per_round: 1\n", true);
  make_fleet({"a"});
  const auto server = serve("served");
  const auto client = join("a");
  ASSERT_TRUE(eventually([](const json& now) {
    return std::ranges::any_of(now["clients"], [](const json& one) { return one["state"] == "working"; });
  })) << server->output();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // it trains
  const auto begin = std::chrono::steady_clock::now();
  client->send(SIGTERM);
  EXPECT_EQ(client->wait(), 0) << client->output();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// CHORUS_KILLS=50 kills the server and clients 50 times each (some minutes).
TEST_F(ServingTest, KillsAtRandomMomentsChangeNoBit) {
  const char* wanted = std::getenv("CHORUS_KILLS");
  const int kills = wanted == nullptr ? 2 : std::atoi(wanted);
  const std::string config =
      std::regex_replace(kScaffold, std::regex("rounds: 60"), "rounds: " + std::to_string(40 * kills));
  write_config("run.yaml", config, false);
  write_config("served.yaml", config, true);
  ASSERT_EQ(chorus({"run", path("run.yaml"), "--run-folder", path("pooled")}), 0) << output_;
  make_fleet({"a", "b", "c", "d"});
  const std::string names = "abcd";
  auto server = serve("served");
  std::map<char, std::unique_ptr<Child>> clients;
  for (const char name : names) clients[name] = join({name});
  for (const char name : names) {
    for (int i = 0; i < 2000 && !fs::exists(folder_ / (std::string("identity_") + name) / "fleet.json"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  const auto seed = static_cast<std::uint64_t>(::getpid());
  RandomStream stream({.seed = seed, .purpose = "kills"});
  int servers = 0, others = 0;
  while ((servers < kills || others < kills) && !fs::exists(folder_ / "served" / "summary.json")) {
    std::this_thread::sleep_for(std::chrono::duration<double>(1.5 * stream.uniform()));
    if (servers < kills && (others >= kills || stream.below(2) == 0)) {
      server->send(SIGKILL);
      (void)server->wait();
      server = serve("served");
      ++servers;
    } else {
      const char name = names[stream.below(names.size())];
      clients[name]->send(SIGKILL);
      (void)clients[name]->wait();
      clients[name] = join({name});
      ++others;
    }
  }
  EXPECT_EQ(servers + others, 2 * kills) << "the run was over before; seed " << seed;
  EXPECT_EQ(server->wait(), 0) << server->output();
  EXPECT_FALSE(weights("pooled").empty());
  EXPECT_TRUE(weights("served") == weights("pooled")) << "seed " << seed << server->output();
}

// FedID asks in sessions, once per batch; its labelled queries never leave the server.
TEST_F(ServingTest, PublicTextsAreSentToTheClients) {
  const std::string distill = std::string(kTrainer) +
                              "algorithm: {name: fedid, epochs: 1, batch_size: 4}\nrounds: 2\nclients_per_round: 4\n"
                              "public: {unlabelled: [FOLDER/public.jsonl], query: [FOLDER/queries.jsonl]}\n";
  for (const char* name : {"public.jsonl", "queries.jsonl"}) fs::copy_file(folder_ / "test.jsonl", folder_ / name);
  write_config("run.yaml", distill, false);
  write_config("served.yaml", distill + "serving: {clients: 4, min_clients: 4}\n", true);
  ASSERT_EQ(chorus({"run", path("run.yaml"), "--run-folder", path("pooled")}), 0) << output_;
  make_fleet({"a", "b", "c", "d"});
  auto server = serve("served");
  const auto clients = join_four();
  ASSERT_TRUE(reaches("served", 2)) << server->output() << clients.at("a")->output();
  EXPECT_EQ(server->wait(), 0) << server->output();
  expect_success(clients);
  EXPECT_FALSE(weights("pooled").empty());
  EXPECT_TRUE(weights("served") == weights("pooled")) << server->output();

  write_config("served.yaml", std::string(kTrainer) + "algorithm: mhat\npublic: {share: 0.5}\n", true);
  EXPECT_NE(chorus({"serve", path("served.yaml"), "--fleet", path("fleet"), "--run-folder", path("refused")}), 0);
  EXPECT_THAT(output_, HasSubstr("public.share: a server has no training data"));
}

TEST_F(ServingTest, AClientThatDiesIsLeftOutAndANewOneTakesPart) {
  write_config(
      "served.yaml",
      std::string(kTrainer) +
          "rounds: 5000\nclients_per_round: 3\nserving: {clients: 3, min_clients: 2, deadline: 20, grace: 0.5}\n",
      true);
  make_fleet({"a", "b", "c"});
  auto server = serve("served");
  const auto a = join("a"), b = join("b"), c = join("c");
  ASSERT_TRUE(reaches("served", 2)) << server->output();
  c->send(SIGKILL);
  (void)c->wait();
  ASSERT_EQ(chorus({"fleet", "invite", "-q", "--fleet", path("fleet"), "d"}), 0);
  tokens_["d"] = output_.substr(output_.rfind(' ') + 1, output_.find('\n') - output_.rfind(' ') - 1);
  const auto d = join("d");
  int round = 0;
  ASSERT_TRUE(eventually([&round](const json& now) {
    round = now["round"];
    const auto is = [&now](const char* name, bool connected) {
      return std::any_of(now["clients"].begin(), now["clients"].end(), [&](const json& client) {
        return client["name"] == name && client["connected"] == connected;
      });
    };
    return is("c", false) && is("d", true);
  })) << server->output();
  ASSERT_TRUE(reaches("served", round + 3)) << server->output();
  EXPECT_EQ(chorus({"stop", "--fleet", path("fleet")}), 0);
  EXPECT_EQ(server->wait(), 130) << server->output();
}

// What a client was charged is also in its log of what left, and the server knows which replies it has used.
TEST_F(ServingTest, AClientWithoutItsPrivacyLedgersTakesNoPart) {
  ::setenv("XDG_STATE_HOME", path("state").c_str(), 1);  // for copies of the ledgers of a and b
  write_config("served.yaml",
               "algorithm: fedavg\nrounds: 5000\nclients_per_round: 3\n"
               "trainer: {batch_size: 4, optimizer: sgd, learning_rate: 0.2, clip: 0, label_epsilon: 3, "
               "privacy: {noise: 1, delta: 1e-3}}\n"
               "compression: {up: [{name: local_gaussian, clip: 0.5, noise: 4}]}\n"
               "serving: {clients: 3, min_clients: 2, deadline: 20, grace: 0.5}\n",
               true);
  make_fleet({"a", "b", "c"});
  auto server = serve("served");
  const auto a = join("a"), b = join("b");
  ::setenv("XDG_STATE_HOME", path("state_c").c_str(), 1);
  auto c = join("c");
  const fs::path identity = folder_ / "identity_c", backup = folder_ / "backup_c";
  const auto stop = [&] {
    c->send(SIGKILL);
    (void)c->wait();
    fs::remove_all(folder_ / "state_c");  // no copies
  };
  const auto says = [&](const std::string& words) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < limit) {
      if (c->output().find(words) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  };
  const auto replies = [&] {
    const std::string log = read(identity / "egress.jsonl");
    std::size_t count = 0;
    for (auto at = log.find("reply:"); at != std::string::npos; at = log.find("reply:", at + 1)) ++count;
    return count;
  };
  const auto wait_for_replies = [&](std::size_t more) {
    const std::size_t wanted = replies() + more;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (replies() < wanted && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return replies() >= wanted;
  };
  ASSERT_TRUE(wait_for_replies(2)) << server->output() << c->output();
  stop();
  fs::copy(identity, backup, fs::copy_options::recursive);
  for (const std::string file : {"examples.ledger", "local.ledger", "labels.ledger"}) {
    const fs::path ledger = fs::directory_iterator(identity / "runs")->path() / file;
    const std::string whole = read(ledger);
    ASSERT_GT(std::count(whole.begin(), whole.end(), '\n'), 1) << file;
    const std::size_t header = whole.find('\n') + 1;
    // In the first charge: the last ones may be of work from which nothing left.
    const std::pair<std::string, std::size_t> damages[] = {
        {"deleted", 0}, {"truncated", header + 3}, {"older", header}};
    for (const auto& [what, bytes] : damages) {
      fs::remove(ledger);
      if (bytes > 0) std::ofstream(ledger, std::ios::binary) << whole.substr(0, bytes);
      c = join("c");
      EXPECT_TRUE(says(file + ": this privacy ledger is lost or too old"))
          << file << " " << what << c->output() << server->output();
      stop();
    }
    fs::remove(ledger);
    std::ofstream(ledger, std::ios::binary) << whole;
  }
  c = join("c");
  ASSERT_TRUE(wait_for_replies(3)) << c->output() << server->output();
  stop();
  // All of its folder is older than what the server has: log, states and ledgers agree with each other.
  fs::remove_all(identity);
  fs::copy(backup, identity, fs::copy_options::recursive);
  c = join("c");
  EXPECT_TRUE(says("no longer on its disk")) << c->output();
  stop();
  EXPECT_EQ(chorus({"stop", "--fleet", path("fleet")}), 0);
  EXPECT_EQ(server->wait(), 130) << server->output();
}

TEST_F(ServingTest, OperatorsLimitMessagesAndClients) {
  write_config("served.yaml", std::string(kTrainer) + "rounds: 2000\nclients_per_round: 1\n", true);
  make_fleet({"a", "b"});
  {
    auto server = serve("served", {"serving.peers=1"});
    const auto a = join("a");
    ASSERT_TRUE(eventually([](const json& now) { return now["round"] >= 1; })) << server->output();
    const auto b = join("b");
    for (int i = 0; i < 200 && b->output().find("as many peers") == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_THAT(b->output(), HasSubstr("the server has as many peers as it may"));
  }
  auto server = serve("narrow", {"--new", "serving.frame_limit=0.01"});
  const auto a = join("a");
  EXPECT_EQ(server->wait(), 4);
  EXPECT_THAT(server->output(), HasSubstr("raise serving.frame_limit at the server"));
}

TEST_F(ServingTest, OperatorsPauseAndStopAndOwnersRefuse) {
  write_config("served.yaml", std::string(kTrainer) + "rounds: 2000\nclients_per_round: 2\nserving: {min_clients: 1}\n",
               true);
  make_fleet({"a", "b", "c"});
  std::ofstream(folder_ / "policy.yaml") << "kind: policy\nallow: [{task: seq_tagging}]\n";
  std::ofstream(folder_ / "hours.yaml") << "kind: policy\nallow: [{procedures: [evaluate]}]\nthreads: 1\n";
  EXPECT_EQ(chorus({"status", "--fleet", path("fleet")}), 1);
  EXPECT_THAT(output_, HasSubstr("no server is running"));
  ::setenv("CHORUS_LOG_FORMAT", "json", 1);
  auto server = serve("served");
  ::unsetenv("CHORUS_LOG_FORMAT");
  const auto c = join("c", {"--policy", path("policy.yaml")});
  const auto a = join("a"), b = join("b", {"--policy", path("hours.yaml")});
  ASSERT_TRUE(eventually([](const json& now) {
    return now["round"] >= 3 && now["refusals"].contains("c") && now["refusals"].contains("b");
  })) << server->output();
  const json refusing = status();
  EXPECT_EQ(refusing["refusals"]["c"], "its policy does not allow the task text_classification");
  EXPECT_EQ(refusing["refusals"]["b"], "its policy does not allow the procedure train");
  EXPECT_EQ(refusing["clients"][1]["state"], "resting") << refusing;
  EXPECT_THAT(server->output(), HasSubstr("it refuses: its policy does not allow the procedure train"));
  const std::string unfinished = read(folder_ / "fleet" / "serving.json");
  EXPECT_EQ(chorus({"serve", path("served.yaml"), "--fleet", path("fleet"), "--run-folder", path("second")}), 4);
  EXPECT_THAT(output_, HasSubstr("a server is already running"));
  EXPECT_EQ(read(folder_ / "fleet" / "serving.json"), unfinished);
  EXPECT_FALSE(fs::exists(folder_ / "second"));
  EXPECT_EQ(chorus({"pause", "--fleet", path("fleet")}), 0);
  EXPECT_THAT(output_, HasSubstr("chorus pause --end"));
  ASSERT_TRUE(eventually([](const json& now) { return now["state"] == "paused"; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const json before = status();
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  EXPECT_EQ(status()["round"], before["round"]);
  EXPECT_EQ(chorus({"pause", "--end", "--fleet", path("fleet")}), 0);
  ASSERT_TRUE(eventually([&](const json& now) { return now["round"] > before["round"]; }));
  EXPECT_EQ(chorus({"stop", "--fleet", path("fleet")}), 0);
  EXPECT_EQ(server->wait(), 130);
  EXPECT_THAT(server->output(), HasSubstr("the same command continues it"));
  const std::string another = path("served.yaml");
  EXPECT_EQ(chorus({"serve", another, "--fleet", path("fleet"), "--run-folder", path("served"), "seed=6"}), 2);
  EXPECT_THAT(output_, HasSubstr("only the section serving may change"));
  const auto again = serve("served", {"serving.slowest=4"});
  const auto stopped_after = before["round"].get<int>();
  EXPECT_TRUE(eventually([&](const json& now) { return now["round"] > stopped_after; })) << again->output();
  EXPECT_EQ(chorus({"stop", "--now", "--fleet", path("fleet")}), 0);
  EXPECT_EQ(again->wait(), 130);
  EXPECT_THAT(read(folder_ / "served" / "config.yaml"), HasSubstr("slowest: 4"));
  std::istringstream lines(server->output());
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(json::accept(line)) << line;
  for (const auto* client : {&a, &b, &c}) {
    (*client)->send(SIGTERM);
    EXPECT_EQ((*client)->wait(), 0) << (*client)->output();
  }
  EXPECT_EQ(chorus({"egress", "verify", "--identity", path("identity_a")}), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("nothing was changed"));
  EXPECT_EQ(chorus({"egress", "list", "--identity", path("identity_a")}), 0);
  EXPECT_THAT(output_, HasSubstr("update ("));
  std::string log = read(folder_ / "identity_a" / "egress.jsonl");
  log.replace(log.find("\"bytes\":") + 8, 1, "9");
  std::ofstream(folder_ / "identity_a" / "egress.jsonl") << log;
  EXPECT_EQ(chorus({"egress", "verify", "--identity", path("identity_a")}), 1);
  EXPECT_THAT(output_, HasSubstr("line 1 was changed"));
}

}  // namespace
}  // namespace chorus::inline integration
