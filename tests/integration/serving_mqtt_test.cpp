// `chorus serve` and `chorus join` over an MQTT broker with the files that `chorus fleet` writes for it.
#include <gtest/gtest.h>

#include "tests/broker.h"
#include "tests/integration/serving_fixture.h"

namespace chorus::inline integration {
namespace {

constexpr const char* kScaffold =
    "algorithm: scaffold\nrounds: 40\nclients_per_round: 4\n"
    "trainer: {batch_size: 4, optimizer: sgd, learning_rate: 0.2, clip: 0}\n"
    "serving: {clients: 4, min_clients: 4, transport: mqtt}\n";

class MqttServingTest : public ServingTest {
 protected:
  void SetUp() override {
    if (Broker::program().empty()) GTEST_SKIP() << "there is no mosquitto";
    make_fleet({"a", "b", "c", "d"});
  }
  std::unique_ptr<Child> join_broker(const std::string& name) { return join(name, {"--transport", "mqtt"}); }
  std::unique_ptr<Broker> start_broker() {
    return std::make_unique<Broker>(folder_ / "fleet" / "broker" / "mosquitto.conf", port_);
  }
};

TEST_F(MqttServingTest, GivesTheBitsOfOneProcessWhateverIsKilled) {
  write_config("run.yaml", kScaffold, false);
  write_config("served.yaml", kScaffold, true);
  ASSERT_EQ(chorus({"run", path("run.yaml"), "--run-folder", path("pooled")}), 0) << output_;
  auto broker = start_broker();
  ASSERT_TRUE(broker->ready());
  auto server = serve("served");
  std::map<std::string, std::unique_ptr<Child>> clients;
  for (const char* name : {"a", "b", "c", "d"}) clients[name] = join_broker(name);
  ASSERT_TRUE(reaches("served", 4)) << server->output();
  server->send(SIGKILL);
  EXPECT_EQ(server->wait(), 128 + SIGKILL);
  server = serve("served");
  ASSERT_TRUE(reaches("served", 12)) << server->output();
  clients["b"]->send(SIGKILL);
  EXPECT_EQ(clients["b"]->wait(), 128 + SIGKILL);
  clients["b"] = join_broker("b");
  ASSERT_TRUE(reaches("served", 20)) << server->output();
  broker.reset();
  broker = start_broker();
  EXPECT_EQ(server->wait(), 0) << server->output();
  for (const auto& [name, client] : clients) EXPECT_EQ(client->wait(), 0) << name << client->output();
  EXPECT_FALSE(weights("pooled").empty());
  EXPECT_TRUE(weights("served") == weights("pooled")) << server->output();
}

}  // namespace
}  // namespace chorus::inline integration
