// FedBuff with processes: the server steps without waiting for a slow client, whose late reply counts in a later step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "tests/integration/serving_fixture.h"

namespace chorus::inline integration {
namespace {

class FedBuffServing : public ServingTest {
 protected:
  void begin(const std::vector<std::string>& names, const std::string& config,
             const std::string& evaluation = "{every: 50}") {
    write_config("served.yaml",
                 config + "trainer: {batch_size: 4, optimizer: sgd, learning_rate: 0.1, clip: 0}\nevaluation: " +
                     evaluation + "\n",
                 true);
    make_fleet(names);
    server_ = serve("served");
    for (const std::string& name : names) clients_[name] = join(name);
  }
  int round() { return status().value("round", 0); }
  /// Of all rounds so far.
  double largest(const std::string& number) const {
    double found = 0;
    std::istringstream lines(read(folder_ / "served" / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const json event = json::parse(line, nullptr, false);
      if (event.is_object() && event.contains(number)) found = std::max(found, event[number].get<double>());
    }
    return found;
  }
  /// The others train ten rounds while `name` stands still, which then goes on.
  void goes_on_without(const std::string& name) {
    clients_[name]->send(SIGSTOP);
    const int stopped_at = round();
    EXPECT_TRUE(reaches("served", stopped_at + 10)) << server_->output();
    clients_[name]->send(SIGCONT);
    EXPECT_TRUE(eventually([&](const json&) { return largest("staleness") >= 2; })) << server_->output();
  }
  /// Stops `name` while it trains: rounds go on. One that is stopped while the server waits for its score goes on.
  void stop_in_training(const std::string& name, int rounds) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      clients_[name]->send(SIGSTOP);
      const int stopped_at = round();
      for (int look = 0; look < 50; ++look) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (round() >= stopped_at + rounds) return;
      }
      clients_[name]->send(SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds(300 + 70 * attempt));
    }
    ADD_FAILURE() << "the server waits for " << name << ": " << server_->output();
  }
  void stop() {
    ASSERT_EQ(chorus({"stop", "--fleet", path("fleet")}), 0) << output_;
    EXPECT_EQ(server_->wait(), 130) << server_->output();
  }

  std::unique_ptr<Child> server_;
  std::map<std::string, std::unique_ptr<Child>> clients_;
};

TEST_F(FedBuffServing, ALateReplyCountsInALaterStep) {
  begin({"a", "b", "c"},
        "algorithm: {name: fedbuff, buffer: 2}\nrounds: 100000\nclients_per_round: 3\nserving: {clients: 3}\n");
  ASSERT_TRUE(reaches("served", 3)) << server_->output();
  goes_on_without("c");
  // A server that is killed asks anew; a client that is killed is replaced.
  server_->send(SIGKILL);
  (void)server_->wait();
  server_ = serve("served");
  ASSERT_TRUE(eventually([](const json& now) { return now["state"] == "training"; })) << server_->output();
  ASSERT_TRUE(reaches("served", round() + 3)) << server_->output();
  clients_["b"]->send(SIGKILL);
  (void)clients_["b"]->wait();
  ASSERT_TRUE(reaches("served", round() + 5)) << server_->output();
  stop();
}

TEST_F(FedBuffServing, ScoresAreAskedOfThoseWhoDoNotTrain) {
  begin({"a", "b", "c"},
        "algorithm: {name: fedbuff, buffer: 1}\nrounds: 100000\nclients_per_round: 3\nserving: {clients: 3}\n",
        "{every: 5, per_client: true}");
  ASSERT_TRUE(reaches("served", 1)) << server_->output();
  stop_in_training("c", 12);
  EXPECT_GE(largest("left_out"), 1);
  clients_["c"]->send(SIGCONT);
  ASSERT_TRUE(reaches("served", round() + 3)) << server_->output();
  stop();
}

TEST_F(FedBuffServing, AStepCanBePausedAndAStuckClientIsGivenUp) {
  begin({"a", "b", "c"},
        "algorithm: {name: fedbuff, buffer: 2}\nrounds: 100000\nclients_per_round: 3\n"
        "serving: {clients: 3, min_clients: 2, deadline: 2}\n");
  ASSERT_TRUE(reaches("served", 3)) << server_->output();
  clients_["c"]->send(SIGSTOP);
  ASSERT_EQ(chorus({"pause", "--fleet", path("fleet")}), 0) << output_;
  ASSERT_TRUE(eventually([](const json& now) { return now["waiting_for"] == "`chorus pause --end`"; }))
      << server_->output();
  const int paused_at = round();
  std::this_thread::sleep_for(std::chrono::seconds(3));  // longer than the deadline
  EXPECT_EQ(round(), paused_at);
  ASSERT_EQ(chorus({"pause", "--end", "--fleet", path("fleet")}), 0) << output_;
  ASSERT_TRUE(reaches("served", paused_at + 5)) << server_->output();
  EXPECT_TRUE(eventually([&](const json&) {
    return read(folder_ / "served" / "metrics.jsonl").find("did not reply within 2 seconds") != std::string::npos;
  })) << server_->output();
  clients_["c"]->send(SIGCONT);
  ASSERT_TRUE(reaches("served", round() + 5)) << server_->output();
  stop();
}

TEST_F(FedBuffServing, BufferedUpdatesAreSummedSecurely) {
  begin({"a", "b", "c", "d"},
        "algorithm: {name: fedbuff, buffer: 3}\naggregation: {name: secagg, clip: 2}\nrounds: 100000\n"
        "clients_per_round: 4\nserving: {clients: 4, deadline: 5}\n");
  ASSERT_TRUE(reaches("served", 3)) << server_->output();
  clients_["d"]->send(SIGSTOP);
  ASSERT_TRUE(reaches("served", round() + 5)) << server_->output();
  clients_["d"]->send(SIGCONT);
  ASSERT_TRUE(reaches("served", round() + 5)) << server_->output();
  stop();
}

}  // namespace
}  // namespace chorus::inline integration
