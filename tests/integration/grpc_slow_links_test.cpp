// The gRPC transport over links that are too slow for a message: nobody waits for ever for a client behind one.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/console/quiet_console.h"
#include "tests/integration/grpc_network.h"

namespace chorus::inline integration {
namespace {

using Kind = TransportEvent::Kind;

constexpr double kShortly = 10;  // seconds within which something must happen

GrpcConfig config_at(const std::string& address) {
  GrpcConfig config;
  config.address = address;
  config.grace = 60;
  config.stall = 1;
  config.slowest = 1000;
  config.retry = 0.2;
  return config;
}

class GrpcSlowLinks : public testing::Test {
 protected:
  GrpcSlowLinks() { link_.slow_down(100U << 10U); }
  std::unique_ptr<ClientTransport> connect() {
    auto client = GrpcTransport(config_at(link_.address())).connect();
    EXPECT_EQ(next(), Kind::kJoined);
    return client;
  }
  Kind next() {
    const auto event = server_->receive(kShortly);
    EXPECT_TRUE(event.has_value());
    return event ? event->kind : Kind::kFrame;
  }

  const QuietConsole quiet_;
  GrpcTransport transport_{config_at("127.0.0.1:0")};
  std::unique_ptr<ServerTransport> server_ = transport_.listen();
  Relay link_{port_of(transport_.address())};
};

// It would connect again within the grace and begin the message anew.
TEST_F(GrpcSlowLinks, AClientThatSendsTooSlowlyLeaves) {
  const auto client = connect();
  EXPECT_TRUE(client->send(std::string(8'000'000, 'x')));
  EXPECT_EQ(next(), Kind::kLeft);
  EXPECT_FALSE(client->receive(kShortly).has_value());
  EXPECT_FALSE(client->connected());
  EXPECT_EQ(client->refusal(), "") << "another connection may be faster";
}

// Where TCP gives up, the server sees no pace: not even a chunk arrives whole.
TEST_F(GrpcSlowLinks, AClientThatIsCutAgainAndAgainWithinAMessageEndsItsSession) {
  const auto client = connect();
  EXPECT_TRUE(client->send(std::string(8'000'000, 'x')));
  std::atomic<bool> over = false;
  std::thread cuts([&] {
    while (!over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      link_.cut();
    }
  });
  EXPECT_FALSE(client->receive(kShortly).has_value());
  EXPECT_FALSE(client->connected()) << "so that it joins anew, and the reply counts as lost";
  over = true;
  cuts.join();
}

TEST(GrpcKeepalive, AServerNoticesAPeerThatDoesNotAnswer) {
  GrpcConfig config = config_at("127.0.0.1:0");
  config.keepalive = 1;
  config.grace = 0.1;
  GrpcTransport transport(config);
  const auto server = transport.listen();
  Relay link(port_of(transport.address()));
  const auto client = GrpcTransport(config_at(link.address())).connect();
  ASSERT_TRUE(server->receive(kShortly).has_value());
  link.freeze();
  const auto event = server->receive(kShortly);
  ASSERT_TRUE(event.has_value()) << "by default it takes 30 seconds";
  EXPECT_EQ(event->kind, Kind::kLeft);
}

// A server without space for a large message, or one that is paused, reads on later.
TEST_F(GrpcSlowLinks, CutsWhileTheServerMakesAClientWaitDoNotEndItsSession) {
  GrpcConfig config = config_at("127.0.0.1:0");
  config.inbox = 1;
  GrpcTransport narrow(config);
  const auto server = narrow.listen();
  const auto receive = [&] { return server->receive(kShortly).value_or(TransportEvent{Kind::kLeft}); };
  Relay link(port_of(narrow.address()));
  const auto first = narrow.connect();
  EXPECT_EQ(receive().kind, Kind::kJoined);
  const auto second = GrpcTransport(config_at(link.address())).connect();
  EXPECT_EQ(receive().kind, Kind::kJoined);
  const auto a_moment = [] { std::this_thread::sleep_for(std::chrono::milliseconds(250)); };

  EXPECT_TRUE(first->send(std::string(2'000'000, 'a')));
  a_moment();
  EXPECT_TRUE(second->send(std::string(2'000'000, 'b')));
  for (int cuts = 0; cuts < 8; ++cuts) {
    a_moment();
    link.cut();
  }
  EXPECT_TRUE(second->connected());
  EXPECT_TRUE(receive().frame == std::string(2'000'000, 'a'));
  EXPECT_TRUE(receive().frame == std::string(2'000'000, 'b'));
}

}  // namespace
}  // namespace chorus::inline integration
