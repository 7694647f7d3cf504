// The MQTT transport over a real mosquitto broker with the files that a fleet writes for it: certificates, rules,
// revocation, and hostile clients that are enrolled.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/base/error.h"
#include "core/console/quiet_console.h"
#include "core/files/files.h"
#include "infrastructure/certificates/certificate.h"
#include "infrastructure/certificates/own_end.h"
#include "infrastructure/fleet/fleet_folder.h"
#include "infrastructure/fleet/secret.h"
#include "infrastructure/transport/mailbox/post.h"
#include "infrastructure/transport/mqtt/mqtt_mailbox.h"
#include "tests/broker.h"
#include "tests/support.h"

namespace chorus::inline integration {
namespace {

using testing::HasSubstr;
using Kind = TransportEvent::Kind;

constexpr double kSoon = 10;  // seconds within which something must happen

std::shared_ptr<const FrameBytes> shared_frame(std::string bytes) {
  return std::make_shared<const FrameBytes>(std::move(bytes));
}

class MqttNetwork : public testing::Test {
 protected:
  void SetUp() override {
    if (Broker::program().empty()) GTEST_SKIP() << "there is no mosquitto";
    FleetFolder::create({root_ / "fleet", address_, 30}, std::time(nullptr));
    broker_.emplace(root_ / "fleet" / "broker" / "mosquitto.conf", port_);
    ASSERT_TRUE(broker_->ready());
    MqttConfig config = config_of("fleet", "server_as_client");
    config.revoked = (root_ / "fleet" / "broker" / "members").string();
    server_ = MqttTransport(config).listen();
  }
  MqttConfig config_of(const std::string& folder, const std::string& who) const {
    MqttConfig config;
    config.address = address_;
    config.certificate = (root_ / folder / (who + ".crt")).string();
    config.key = (root_ / folder / (who + ".key")).string();
    config.authority = (root_ / "fleet" / "authority.crt").string();
    config.retry = 0.5;
    return config;
  }
  /// Enrols a client in `fleet`, as if at another time: its certificate is valid for 30 days from then.
  MqttConfig enrol(const std::string& name, std::time_t ago = 0, const std::string& fleet = "fleet") {
    const std::time_t then = std::time(nullptr) - ago;
    FleetFolder folder(root_ / fleet);
    const Token token = parse_token(folder.invite(name, 1, then).token);
    std::filesystem::create_directories(root_ / name);
    const std::string key = make_key();
    write_file(root_ / name / "client.key", key);
    write_file(root_ / name / "client.crt",
               folder.admit({name, token.secret, make_request(key, name), then}, then).value_or_throw().certificate);
    return config_of(name, "client");
  }
  TransportEvent next() {
    auto event = server_->receive(kSoon);
    EXPECT_TRUE(event.has_value());
    return event ? std::move(*event) : TransportEvent{};
  }
  void expect_works(const std::string& name) {
    const auto client = MqttTransport(enrol(name)).connect();
    const TransportEvent joined = next();
    EXPECT_EQ(joined.identity, name);
    EXPECT_TRUE(client->send("hello"));
    EXPECT_EQ(next().frame, "hello");
    EXPECT_TRUE(server_->send(joined.peer, shared_frame("welcome")));
    EXPECT_EQ(client->receive(kSoon), "welcome");
  }
  /// A party of its own making, with somebody's certificate.
  struct Stranger {
    Stranger(const MqttConfig& config, const std::string& name, std::vector<std::string> topics)
        : mailbox({config, name, name + "-stranger", "chorus/up/" + name, encode_bye(0, Verdict::kOver),
                   std::move(topics)}) {
      mailbox.open([this](Letter letter) {
        const std::lock_guard lock(mutex);
        if (!letter.from.empty()) letters.push_back(letter.bytes);
      });
      connected = mailbox.wait_until_connected(5);  // Paho looks once a second
    }
    std::size_t received() {
      const std::lock_guard lock(mutex);
      return letters.size();
    }
    void post(const Post& post, const std::string& data = "") { mailbox.post(kMqttServer, encode_post(post, data)); }
    bool connected = false;
    std::mutex mutex;
    std::vector<std::string> letters;
    MqttMailbox mailbox;  // last: its thread uses the rest
  };

  const QuietConsole quiet_;
  TemporaryFolder root_;
  const int port_ = 40'000 + ::getpid() % 9'000;
  const std::string address_ = "127.0.0.1:" + std::to_string(port_);
  std::optional<Broker> broker_;
  std::unique_ptr<ServerTransport> server_;
};

TEST_F(MqttNetwork, OnlyCertificatesOfTheFleetReachTheBroker) {
  FleetFolder::create({root_ / "other", address_, 30}, std::time(nullptr));
  const MqttConfig foreign = enrol("clinic-a", 0, "other");
  EXPECT_FALSE(Stranger(foreign, "clinic-a", {"chorus/down/clinic-a"}).connected) << "another fleet's";
  MqttConfig plain;
  plain.address = address_;
  EXPECT_FALSE(Stranger(plain, "clinic-a", {"chorus/down/clinic-a"}).connected) << "no certificate";
  EXPECT_FALSE(server_->receive(0.1).has_value());
  expect_works("clinic-a");
  EXPECT_TRUE(Stranger(enrol("clinic-b"), "clinic-b", {"chorus/down/clinic-b"}).connected);
}

TEST_F(MqttNetwork, AClientReadsAndWritesItsOwnTopicsOnly) {
  const auto client = MqttTransport(enrol("clinic-a")).connect();
  const PeerId peer = next().peer;
  const MqttConfig own = enrol("clinic-b");
  Stranger stranger(own, "clinic-a", {"chorus/down/clinic-a", "chorus/up/+", "chorus/#"});
  ASSERT_TRUE(stranger.connected);
  stranger.post({Post::Kind::kOpen, 1});  // to chorus/up/clinic-a
  stranger.mailbox.post("clinic-a", encode_bye(kEverySession, Verdict::kOver));
  EXPECT_TRUE(server_->send(peer, shared_frame("for clinic-a alone")));
  EXPECT_EQ(client->receive(kSoon), "for clinic-a alone");
  EXPECT_TRUE(client->send("still here"));
  const TransportEvent event = next();
  EXPECT_EQ(event.peer, peer);
  EXPECT_EQ(event.frame, "still here");
  EXPECT_FALSE(server_->receive(0.3).has_value());
  EXPECT_EQ(stranger.received(), 0U);
}

TEST_F(MqttNetwork, ARevokedClientIsDroppedAndToldWhyThoughTheBrokerKnowsNothing) {
  const MqttConfig config = enrol("clinic-b");
  const auto client = MqttTransport(config).connect();
  const PeerId peer = next().peer;
  FleetFolder(root_ / "fleet").revoke("clinic-b");
  const auto left = server_->receive(2);
  ASSERT_TRUE(left && left->kind == Kind::kLeft);
  EXPECT_EQ(left->peer, peer);
  EXPECT_FALSE(client->receive(kSoon).has_value());
  EXPECT_EQ(client->refusal(), kRevokedText);
  const auto again = MqttTransport(config).connect();
  EXPECT_FALSE(again->receive(kSoon).has_value());
  EXPECT_EQ(again->refusal(), kRevokedText);
  EXPECT_FALSE(server_->receive(0.1).has_value());
  expect_works("clinic-b");  // once it has joined again
}

// The server sees names, the broker certificates: once the name is invited again, only the broker can refuse the old
// one.
TEST_F(MqttNetwork, TheBrokerRefusesRevokedCertificatesOnceItHasReadTheList) {
  const std::vector<std::string> own = {"chorus/down/clinic-b"};
  const auto reaches = [&](const MqttConfig& config) { return Stranger(config, "clinic-b", own).connected; };
  (void)enrol("clinic-b");
  std::filesystem::copy(root_ / "clinic-b", root_ / "stolen");
  const MqttConfig old = config_of("stolen", "client");
  FleetFolder(root_ / "fleet").revoke("clinic-b");
  const MqttConfig current = enrol("clinic-b");
  const Stranger before(old, "clinic-b", own);
  EXPECT_TRUE(before.connected) << "the broker has not read the list";
  broker_->send(SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(reaches(old));
  EXPECT_TRUE(reaches(current));
  expect_works("clinic-c");
  server_.reset();
  broker_.emplace(root_ / "fleet" / "broker" / "mosquitto.conf", port_);
  ASSERT_TRUE(broker_->ready());
  EXPECT_FALSE(reaches(old)) << "the broker has started anew";
  EXPECT_TRUE(reaches(current));
}

// On a busy machine a certificate of three seconds may have expired before its owner has connected.
TEST_F(MqttNetwork, AConnectedClientWhoseCertificateExpiresIsDropped) {
  for (const std::time_t life : {3, 12, 40}) {
    const std::string name = fmt::format("clinic-{}", life);
    const MqttConfig config = enrol(name, 30 * 86'400 - life);
    const auto client = MqttTransport(config).connect();
    auto joined = server_->receive(static_cast<double>(life));
    while (joined && joined->identity != name) joined = server_->receive(static_cast<double>(life));
    if (!joined) continue;
    const auto left = server_->receive(static_cast<double>(life) + kSoon);
    ASSERT_TRUE(left && left->kind == Kind::kLeft);
    EXPECT_EQ(left->peer, joined->peer);
    EXPECT_FALSE(client->receive(kSoon).has_value());
    EXPECT_THAT(client->refusal(), HasSubstr("expired on"));
    EXPECT_THAT(message_of<DataError>([&] { (void)MqttTransport(config).connect(); }),
                HasSubstr(name + "/client.crt expired on"));
    return;
  }
  FAIL() << "the machine is too slow for this test to say anything";
}

TEST_F(MqttNetwork, AClientThatCannotReachItsBrokerEndsWithItsCertificate) {
  server_.reset();
  broker_.reset();
  const MqttConfig config = enrol("clinic-a", 30 * 86'400 - 4);
  const auto client = MqttTransport(config).connect();
  EXPECT_FALSE(client->receive(kSoon).has_value());
  EXPECT_FALSE(client->connected());
  EXPECT_THAT(client->refusal(), HasSubstr("expired on"));
}

TEST_F(MqttNetwork, OneProcessAtATimeUsesACertificate) {
  const MqttConfig config = enrol("clinic-a");
  auto first = MqttTransport(config).connect();
  const PeerId peer = next().peer;
  const auto second = MqttTransport(config).connect();
  EXPECT_FALSE(server_->receive(1.0).has_value());
  EXPECT_TRUE(first->send("still here"));
  EXPECT_EQ(next().peer, peer);
  EXPECT_TRUE(first->connected());
  first.reset();
  EXPECT_EQ(next().kind, Kind::kLeft);
  EXPECT_EQ(next().kind, Kind::kJoined);  // it keeps trying
  EXPECT_TRUE(second->connected());
}

TEST_F(MqttNetwork, AnEnrolledClientThatFloodsTheServerIsDropped) {
  constexpr std::uint64_t kFlood = 9;
  Stranger hostile(enrol("clinic-h"), "clinic-h", {"chorus/down/clinic-h"});
  ASSERT_TRUE(hostile.connected);
  hostile.post({Post::Kind::kOpen, kFlood});
  const std::string bytes(256U << 10U, 'x');
  for (std::uint64_t i = 1; i <= 200; ++i) hostile.post({Post::Kind::kChunk, kFlood, i, bytes.size(), 0}, bytes);
  std::size_t frames = 0;
  EXPECT_EQ(next().kind, Kind::kJoined);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // nobody reads
  for (TransportEvent event = next(); event.kind == Kind::kFrame; event = next()) ++frames;
  EXPECT_LE(frames, 16U);
  EXPECT_FALSE(server_->receive(0.1).has_value());
  expect_works("clinic-a");
}

}  // namespace
}  // namespace chorus::inline integration
