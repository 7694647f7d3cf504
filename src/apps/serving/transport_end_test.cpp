// The server's settings reach its transport.
#include "apps/serving/transport_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline serving {
namespace {

struct RecordedConfig {
  std::string address, certificate, key, authority, revoked;
  double grace = 0, slowest = 0, stall = 0, inbox = 0, frame_limit = 0, keepalive = 0, retry = 0;
  std::int64_t peers = 0, chunk = 0;

  void describe(ConfigVisitor& visitor) {
    visitor.field("address", address, "");
    visitor.field("certificate", certificate, "");
    visitor.field("key", key, "");
    visitor.field("authority", authority, "");
    visitor.field("revoked", revoked, "");
    visitor.field("grace", grace, "");
    visitor.field("slowest", slowest, "");
    visitor.field("stall", stall, "");
    visitor.field("inbox", inbox, "");
    visitor.field("frame_limit", frame_limit, "");
    visitor.field("keepalive", keepalive, "");
    visitor.field("retry", retry, "");
    visitor.field("peers", peers, "");
    visitor.field("chunk", chunk, "");
  }
};
RecordedConfig recorded;  // of the newest transport

class RecordedTransport : public Transport {
 public:
  std::unique_ptr<ServerTransport> listen() override { return nullptr; }
  std::unique_ptr<ClientTransport> connect() override { return nullptr; }
};
const Registration<Transports, RecordedConfig> kRecordedTransport{"test_recorded", "for tests",
                                                                  [](const RecordedConfig& config) {
                                                                    recorded = config;
                                                                    return std::make_unique<RecordedTransport>();
                                                                  }};

TEST(TransportEnd, TheServersSettingsReachItsTransport) {
  const auto config = ConfigDocument::parse(
                          "{transport: test_recorded, grace: 1, slowest: 2, stall: 3, peers: 4, inbox: 5, "
                          "frame_limit: 6, keepalive: 7, chunk: 8}",
                          "test")
                          .load<ServingConfig>();
  FleetEnd end;
  end.address = "far:1";
  end.listen = "near:2";
  (void)listen_at(config, end);
  EXPECT_EQ(recorded.address, "near:2");
  EXPECT_EQ(recorded.grace, 1);
  EXPECT_EQ(recorded.slowest, 2);
  EXPECT_EQ(recorded.stall, 3);
  EXPECT_EQ(recorded.peers, 4);
  EXPECT_EQ(recorded.inbox, 5);
  EXPECT_EQ(recorded.frame_limit, 6);
  EXPECT_EQ(recorded.keepalive, 7);
  EXPECT_EQ(recorded.chunk, 8);
}

TEST(TransportEnd, SettingsThatNoTransportBearsAreRefused) {
  const auto mistake = [](const std::string& setting) -> std::string {
    try {
      (void)ConfigDocument::parse("{" + setting + "}", "test").load<ServingConfig>();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  for (const std::string setting : {"keepalive: 0.5", "keepalive: 70000", "chunk: 0", "chunk: 4097"}) {
    EXPECT_THAT(mistake(setting), testing::HasSubstr(setting.substr(0, setting.find(':')))) << setting;
  }
  EXPECT_EQ(mistake("keepalive: 1, chunk: 4096"), "");
}

}  // namespace
}  // namespace chorus::inline serving
