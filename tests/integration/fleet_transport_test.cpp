// A fleet's certificates on the gRPC transport, from invitation to revocation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "core/base/error.h"
#include "infrastructure/fleet/enrolment.h"
#include "tests/integration/grpc_network.h"

namespace chorus::inline integration {
namespace {

using testing::HasSubstr;
using Kind = TransportEvent::Kind;

constexpr double kSeconds = 10;

int unused_port() {
  GrpcTransport transport{GrpcConfig()};
  const auto server = transport.listen();
  return port_of(transport.address());
}

class FleetTransport : public testing::Test {
 protected:
  FleetTransport() {
    FleetFolder::create({root_ / "fleet", address_, 30}, std::time(nullptr));
    enrolment_.emplace(
        EnrolmentServerInput{.folder = root_ / "fleet", .address = FleetFolder(root_ / "fleet").enrolment_address()});
    GrpcConfig config;
    config.address = address_;
    config.tls = files("fleet", "server");
    config.revoked = (root_ / "fleet" / "revoked").string();
    server_ = GrpcTransport(config).listen();
  }
  TlsFiles files(const std::string& folder, const std::string& who) const {
    return {(root_ / folder / (who + ".crt")).string(), (root_ / folder / (who + ".key")).string(),
            (root_ / folder / "authority.crt").string()};
  }
  FleetIdentity join(const std::string& name) const {
    const FleetInvitation invitation = FleetFolder(root_ / "fleet").invite(name, 1, std::time(nullptr));
    return enrol({invitation.address, invitation.token, root_ / name});
  }
  std::unique_ptr<ClientTransport> connect(const std::string& name) const {
    GrpcConfig config;
    config.address = address_;
    config.tls = files(name, "client");
    config.retry = 0.2;
    return GrpcTransport(config).connect();
  }

  TemporaryFolder root_;
  const std::string address_ = "127.0.0.1:" + std::to_string(unused_port());
  std::optional<EnrolmentServer> enrolment_;
  std::unique_ptr<ServerTransport> server_;
};

TEST_F(FleetTransport, AnInvitedClientConnectsUntilItIsRevoked) {
  EXPECT_EQ(join("clinic-a").server, address_);
  const auto client = connect("clinic-a");
  auto event = server_->receive(kSeconds);
  ASSERT_TRUE(event && event->kind == Kind::kJoined);
  EXPECT_EQ(event->identity, "clinic-a");
  FleetFolder(root_ / "fleet").revoke("clinic-a");
  event = server_->receive(kSeconds);
  ASSERT_TRUE(event && event->kind == Kind::kLeft);
  EXPECT_FALSE(client->receive(kSeconds).has_value());
  EXPECT_FALSE(client->connected());
}

TEST_F(FleetTransport, OldClientsAcceptARenewedServer) {
  (void)join("clinic-a");
  (void)join("clinic-b");
  const auto before = connect("clinic-a");
  EXPECT_EQ(server_->receive(kSeconds)->identity, "clinic-a");
  FleetFolder(root_ / "fleet").rotate(std::time(nullptr));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // the server checks every second
  const auto after = connect("clinic-b");
  EXPECT_EQ(server_->receive(kSeconds)->identity, "clinic-b");
  EXPECT_TRUE(before->send("still here"));
  EXPECT_EQ(server_->receive(kSeconds)->frame, "still here");
  (void)join("clinic-c");  // enrolment shows the new certificate, too
}

}  // namespace
}  // namespace chorus::inline integration
