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

}  // namespace
}  // namespace chorus::inline integration
