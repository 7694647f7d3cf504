// Cases 26, 28 and 29 of the list of faults, with real processes: certificates that change, clocks and copies of an
// identity, full disks and damaged files. A run ends with the bits of `chorus run`, or says in one sentence what is
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/serving_fixture.h"
#include "tests/integration/small_disk.h"

namespace chorus::inline integration {
namespace {

using testing::HasSubstr;

/// Debian's libfaketime, which tells a process another time; "" without it.
std::string fake_time() {
  for (const auto& folder : fs::directory_iterator("/usr/lib")) {
    const fs::path library = folder.path() / "faketime" / "libfaketime.so.1";
    if (fs::exists(library)) return library;
  }
  return "";
}

class ServingCases : public ServingTest {
 protected:
  /// Four clients of which so many train in a round, and what the same run gives in one process.
  void prepare(int rounds, int clients_per_round = 3) {
    const std::string cohort = std::to_string(clients_per_round);
    const std::string config = "algorithm: scaffold\nrounds: " + std::to_string(rounds) +
                               "\nclients_per_round: " + cohort +
                               "\n"
                               "trainer: {batch_size: 4, optimizer: sgd, learning_rate: 0.2, clip: 0}\n"
                               "serving: {clients: 4, min_clients: " +
                               cohort + "}\n";
    write_config("run.yaml", config, false);
    write_config("served.yaml", config, true);
    ASSERT_EQ(chorus({"run", path("run.yaml"), "--run-folder", path("pooled")}), 0) << output_;
    make_fleet({"a", "b", "c", "d"});
  }
  /// No round begins while the run "served" is paused.
  void pause(bool paused) const {
    const fs::path file = folder_ / "served" / "pause";
    if (paused) {
      std::ofstream(file) << "";
    } else {
      fs::remove(file);
    }
  }
  bool eventually_connected(const std::string& name, bool connected) {
    return eventually([&](const json& now) {
      for (const json& client : now["clients"]) {
        if (client["name"] == name) return client["connected"] == connected;
      }
      return false;
    });
  }
  /// Everybody ends well, with the right model.
  void expect_right_model(Child& server, const std::string& run) {
    EXPECT_EQ(server.wait(), 0) << server.output();
    expect_success(clients_);
    EXPECT_FALSE(weights("pooled").empty());
    EXPECT_TRUE(weights(run) == weights("pooled")) << server.output();
  }
  std::vector<std::string> join_words(const std::string& identity) const {
    return {"join",  "127.0.0.1:" + std::to_string(port_ + 1), "--data", path("a.jsonl"), "--identity", path(identity),
            "--once"};
  }

  Clients clients_;
};

TEST_F(ServingCases, Case26CertificatesAreRenewedDuringARunWithoutALostRound) {
  prepare(40);
  auto server = serve("served");
  clients_ = join_four();
  ASSERT_TRUE(reaches("served", 5)) << server->output();
  pause(true);  // the run must not end meanwhile
  EXPECT_EQ(chorus({"fleet", "rotate", "--fleet", path("fleet")}), 0) << output_;
  std::this_thread::sleep_for(std::chrono::seconds(2));  // the server looks at its files every second
  pause(false);
  ASSERT_TRUE(reaches("served", 15)) << server->output();
  pause(true);
  EXPECT_EQ(status()["repeated_rounds"], 0);
  // A client's own: a new invitation, and a new key. It keeps what it learnt.
  clients_["b"]->send(SIGTERM);
  EXPECT_EQ(clients_["b"]->wait(), 0) << clients_["b"]->output();
  ASSERT_TRUE(eventually_connected("b", false)) << server->output();
  ASSERT_EQ(chorus({"fleet", "invite", "-q", "--fleet", path("fleet"), "b"}), 0) << output_;
  tokens_["b"] = output_.substr(output_.rfind(' ') + 1, output_.find('\n') - output_.rfind(' ') - 1);
  fs::remove(folder_ / "identity_b" / "fleet.json");
  clients_["b"] = join("b");
  ASSERT_TRUE(eventually_connected("b", true)) << server->output();  // nobody waits for a client that said goodbye
  pause(false);
  expect_right_model(*server, "served");
}

TEST_F(ServingCases, Case28ACopyOfAnIdentityCountsOnlyOnce) {
  prepare(40);
  auto server = serve("served");
  clients_ = join_four();
  ASSERT_TRUE(reaches("served", 3)) << server->output();
  pause(true);
  fs::copy(folder_ / "identity_a", folder_ / "copy", fs::copy_options::recursive);
  const auto copy = std::make_unique<Child>(join_words("copy"), folder_ / "copy.log");
  for (int i = 0; i < 2000 && server->output().find("a was refused") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  pause(false);
  expect_right_model(*server, "served");
  EXPECT_THAT(server->output(), HasSubstr("a was refused: another process is connected with its certificate"));
}

TEST_F(ServingCases, Case28AClockThatIsADayWrongChangesNothingOrIsNamed) {
  const std::string library = fake_time();
  if (library.empty()) GTEST_SKIP() << "needs libfaketime";
  prepare(20);
  auto server = serve("served");
  const auto with_clock = [&](const char* offset, const std::string& name) {
    ::setenv("LD_PRELOAD", library.c_str(), 1);
    ::setenv("FAKETIME", offset, 1);
    ::setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
    auto child = join(name);
    ::unsetenv("LD_PRELOAD");
    return child;
  };
  {  // An invitation is not used up by it.
    const auto early = with_clock("-1d", "a");
    EXPECT_NE(early->wait(), 0);
    EXPECT_THAT(early->output(), HasSubstr("clock"));
  }
  clients_["a"] = join("a");
  for (int i = 0; i < 2000 && !fs::exists(folder_ / "identity_a" / "fleet.json"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  clients_["a"]->send(SIGKILL);
  (void)clients_["a"]->wait();
  {  // Before its certificate is valid.
    const auto early = with_clock("-1d", "a");
    EXPECT_NE(early->wait(), 0);
    EXPECT_THAT(early->output(), HasSubstr("set the clock"));
  }
  clients_["a"] = with_clock("+1d", "a");
  for (const char* name : {"b", "c", "d"}) clients_[name] = join(name);
  expect_right_model(*server, "served");
}

TEST_F(ServingCases, Case29AFullDiskAtTheServerLosesNothing) {
  SmallDisk disk(path("disk"), 16);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  prepare(50);
  auto server = serve("disk/served");
  clients_ = join_four();
  ASSERT_TRUE(reaches("disk/served", 3)) << server->output();
  disk.fill();
  EXPECT_EQ(server->wait(), 4) << server->output();
  EXPECT_THAT(server->output(), HasSubstr("No space left on device"));
  disk.make_room();
  server = serve("disk/served");
  expect_right_model(*server, "disk/served");
}

TEST_F(ServingCases, Case29AFullDiskAtAClientLosesNothing) {
  SmallDisk disk(path("identity_a"), 64);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  prepare(50, 4);  // nobody waits for a client that ends, unless it is needed
  auto server = serve("served");
  clients_ = join_four();
  ASSERT_TRUE(reaches("served", 3)) << server->output();
  disk.fill();
  EXPECT_EQ(clients_["a"]->wait(), 4) << clients_["a"]->output();
  EXPECT_THAT(clients_["a"]->output(), HasSubstr("No space left on device"));
  disk.make_room();
  clients_["a"] = join("a");
  expect_right_model(*server, "served");
}

TEST_F(ServingCases, Case29ATruncatedCheckpointIsReportedAndTheOneBeforeIsUsed) {
  prepare(40);
  auto server = serve("served");
  clients_ = join_four();
  ASSERT_TRUE(reaches("served", 12)) << server->output();
  server->send(SIGKILL);
  (void)server->wait();
  std::set<fs::path> checkpoints;
  for (const auto& entry : fs::directory_iterator(folder_ / "served" / "checkpoints")) {
    if (entry.path().filename().string().starts_with("round_")) checkpoints.insert(entry.path());
  }
  ASSERT_GE(checkpoints.size(), 2U);
  const fs::path newest = *checkpoints.rbegin(), tensors = newest / "tensors.safetensors";
  fs::resize_file(tensors, fs::file_size(tensors) / 2);
  server = serve("served");
  expect_right_model(*server, "served");
  EXPECT_THAT(server->output(), HasSubstr(newest.filename().string()));
}

}  // namespace
}  // namespace chorus::inline integration
