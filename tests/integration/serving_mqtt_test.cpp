// `chorus serve` and `chorus join` over an MQTT broker with the files that `chorus fleet` writes for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/broker.h"
#include "tests/integration/serving_fixture.h"

namespace chorus::inline integration {
namespace {

using testing::HasSubstr;

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
  /// Whether a program prints this within ten seconds.
  static bool says(const Child& program, const std::string& text) {
    for (int i = 0; i < 200; ++i) {
      if (program.output().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
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
  expect_success(clients);
  EXPECT_FALSE(weights("pooled").empty());
  EXPECT_TRUE(weights("served") == weights("pooled")) << server->output();
}

TEST_F(MqttServingTest, ARoundGoesOnWithoutAClientThatIsRevoked) {
  write_config("served.yaml",
               "algorithm: fedavg\nrounds: 100000\nclients_per_round: 2\n"
               "trainer: {batch_size: 4, optimizer: sgd, learning_rate: 0.1}\n"
               "serving: {clients: 2, min_clients: 1, transport: mqtt}\n",
               true);
  auto broker = start_broker();
  ASSERT_TRUE(broker->ready());
  auto server = serve("served");
  const auto a = join_broker("a"), d = join_broker("d");
  ASSERT_TRUE(reaches("served", 3)) << server->output();
  ASSERT_EQ(chorus({"fleet", "revoke", "d", "--fleet", path("fleet")}), 0) << output_;
  broker->send(SIGHUP);
  EXPECT_NE(d->wait(), 0);
  EXPECT_THAT(d->output(), HasSubstr("does not accept d: the certificate is revoked"));
  const json now = status();
  ASSERT_TRUE(reaches("served", now.at("round").get<int>() + 3)) << server->output();
  ASSERT_EQ(chorus({"stop", "--fleet", path("fleet")}), 0) << output_;
  EXPECT_EQ(server->wait(), 130) << server->output();
}

TEST_F(MqttServingTest, AClientThatTheBrokerRefusesHearsWhatThatMayMean) {
  write_config("served.yaml", kScaffold, true);
  auto broker = start_broker();
  ASSERT_TRUE(broker->ready());
  {
    auto server = serve("served");
    const auto b = join_broker("b");  // which enrols
    ASSERT_TRUE(says(*b, "joined as b")) << b->output();
    ASSERT_EQ(chorus({"fleet", "revoke", "b", "--fleet", path("fleet")}), 0) << output_;
  }
  broker.reset();
  broker = start_broker();  // it reads the list of revoked certificates
  ASSERT_TRUE(broker->ready());
  const auto b = join_broker("b");
  EXPECT_TRUE(says(*b, "refuses this certificate (revoked or expired: ask the fleet's owner)")) << b->output();
}

TEST_F(MqttServingTest, AMessageOverTheServersLimitIsNamed) {
  write_config("served.yaml", kScaffold, true);
  auto broker = start_broker();
  ASSERT_TRUE(broker->ready());
  auto server = serve("served", {"serving.frame_limit=0.01", "serving.clients=1", "serving.min_clients=1"});
  const auto a = join_broker("a");
  EXPECT_EQ(server->wait(), 4);
  EXPECT_THAT(server->output(), HasSubstr("raise serving.frame_limit at the server"));
}

TEST_F(MqttServingTest, ClientsSayWhyTheyAreNotAccepted) {
  write_config("served.yaml", kScaffold, true);
  auto broker = start_broker();
  ASSERT_TRUE(broker->ready());
  auto server = serve("served");
  const auto first = join_broker("a");
  ASSERT_TRUE(eventually([](const json& now) { return now.dump().find("\"connected\":true") != std::string::npos; }));
  fs::copy(folder_ / "identity_a", folder_ / "copy", fs::copy_options::recursive);
  const Child twin({"join", "127.0.0.1:" + std::to_string(port_ + 1), "--transport", "mqtt", "--data", path("a.jsonl"),
                    "--identity", path("copy")},
                   folder_ / "copy.log");
  const auto other = join("b");
  EXPECT_TRUE(says(twin, "does not accept this client, trying again: another process is connected")) << twin.output();
  EXPECT_TRUE(says(*other, "the server of this fleet may use mqtt: --transport mqtt")) << other->output();
}

}  // namespace
}  // namespace chorus::inline integration
