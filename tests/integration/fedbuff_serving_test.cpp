// FedBuff with processes: the server steps without waiting for a slow client, whose late reply counts in a later step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/integration/serving_fixture.h"

namespace chorus::inline integration {
namespace {

class FedBuffServing : public ServingTest {
 protected:
  void begin(const std::vector<std::string>& names, const std::string& config) {
    write_config(
        "served.yaml",
        config + "trainer: {batch_size: 4, optimizer: sgd, learning_rate: 0.1, clip: 0}\nevaluation: {every: 50}\n",
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

TEST_F(FedBuffServing, BufferedUpdatesAreSummedSecurely) {
  begin({"a", "b", "c", "d"},
        "algorithm: {name: fedbuff, buffer: 3}\naggregation: {name: secagg, clip: 2}\nrounds: 100000\n"
        "clients_per_round: 4\nserving: {clients: 4}\n");
  ASSERT_TRUE(reaches("served", 3)) << server_->output();
  clients_["d"]->send(SIGSTOP);
  ASSERT_TRUE(reaches("served", round() + 5)) << server_->output();
  clients_["d"]->send(SIGCONT);
  ASSERT_TRUE(reaches("served", round() + 5)) << server_->output();
  stop();
}

}  // namespace
}  // namespace chorus::inline integration
