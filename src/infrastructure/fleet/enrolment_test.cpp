#include "infrastructure/fleet/enrolment.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/certificates/certificate.h"
#include "infrastructure/fleet/secret.h"
#include "infrastructure/fleet/tls_socket.h"
#include "tests/support.h"

namespace chorus::inline fleet {
namespace {

using testing::HasSubstr;

/// The first of two consecutive free ports.
int free_port() {
  for (;;) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    check(::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0, "bind");
    check(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
    ::close(socket);
    if (const int port = ntohs(address.sin_port); port < 65534) return port;
  }
}

class EnrolmentTest : public testing::Test {
 protected:
  EnrolmentTest() { FleetFolder::create({root_ / "fleet", address_, 30}, std::time(nullptr)); }

  std::unique_ptr<EnrolmentServer> serve(const std::string& folder = "fleet") {
    return std::make_unique<EnrolmentServer>(
        EnrolmentServerInput{.folder = root_ / folder,
                             .address = FleetFolder(root_ / folder).enrolment_address(),
                             .joined =
                                 [this](const std::string& name) {
                                   const std::lock_guard lock(mutex_);
                                   joined_.push_back(name);
                                 },
                             .seconds = 2});
  }
  FleetInvitation invite(const std::string& name) {
    return FleetFolder(root_ / "fleet").invite(name, 1, std::time(nullptr));
  }
  FleetEnrolment enrolment(const FleetInvitation& invitation, const std::string& folder) const {
    return {invitation.address, invitation.token, root_ / folder};
  }
  std::string refusal(const FleetEnrolment& wanted, std::time_t skew = 0) {
    return message_of<WorldError>([&] { (void)enrol(wanted, [&] { return std::time(nullptr) + skew; }); });
  }

  TemporaryFolder root_;
  const std::string address_ = "127.0.0.1:" + std::to_string(free_port());
  std::mutex mutex_;
  std::vector<std::string> joined_;
};

TEST_F(EnrolmentTest, AnInvitedClientGetsACertificateForItsOwnKey) {
  auto server = serve();
  const FleetIdentity identity = enrol(enrolment(invite("clinic-a"), "client"));
  EXPECT_EQ(identity.name, "clinic-a");
  EXPECT_EQ(identity.server, address_);
  const std::string certificate = read_file(root_ / "client" / "client.crt");
  EXPECT_EQ(certificate_facts(certificate).name, "clinic-a");
  EXPECT_EQ(certificate_facts(certificate).until, identity.until);
  EXPECT_TRUE(key_fits(read_file(root_ / "client" / "client.key"), certificate));
  EXPECT_EQ(read_file(root_ / "client" / "authority.crt"), read_file(root_ / "fleet" / "authority.crt"));
  struct stat status {};
  ASSERT_EQ(::stat((root_ / "client" / "client.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  server.reset();
  EXPECT_THAT(joined_, testing::ElementsAre("clinic-a"));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)enrol(enrolment(invite("clinic-a"), "client")); }),
              HasSubstr("holds the identity of a client already"));
}

TEST_F(EnrolmentTest, RefusalsReachTheUser) {
  const auto server = serve();
  const FleetInvitation invitation = invite("clinic-a");
  FleetInvitation forged = invitation;
  Token token = parse_token(invitation.token);
  token.secret = random_hex(16);
  forged.token = token.text();
  EXPECT_THAT(refusal(enrolment(forged, "a")), HasSubstr("refuses: the invitation is not valid"));
  EXPECT_THAT(refusal(enrolment(invitation, "a"), -86'400), HasSubstr("clock is 24 hours behind the server's"));
  (void)enrol(enrolment(invitation, "a"));  // with the clock corrected, in the same folder
  EXPECT_THAT(refusal(enrolment(invitation, "b")), HasSubstr("used already"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "b" / "fleet.json"));
}

TEST_F(EnrolmentTest, TheSecretIsNotSentToAnotherServer) {
  // Another fleet at the invitation's address, whose server would accept any secret.
  FleetFolder::create({root_ / "other", address_, 30}, std::time(nullptr));
  const auto server = serve("other");
  const FleetInvitation invitation = invite("clinic-a");
  EXPECT_THAT(refusal(enrolment(invitation, "client")), HasSubstr("not the server of this invitation"));
  // A client of the right fleet that pretends to be the server is refused, too.
  const auto client =
      FleetFolder(root_ / "fleet")
          .admit({"clinic-a", parse_token(invitation.token).secret,
                  make_request(read_file(root_ / "other" / "server.key"), "clinic-a"), std::time(nullptr)},
                 std::time(nullptr));
  ASSERT_TRUE(client.ok());
  write_file(root_ / "other" / "server.crt", client.value().certificate);
  write_file(root_ / "other" / "authority.crt", client.value().authority);
  EXPECT_THAT(refusal(enrolment(invite("clinic-b"), "client-b")), HasSubstr("not the server of this invitation"));
}

TEST_F(EnrolmentTest, AnUnreachableServerIsNamed) {
  EXPECT_THAT(refusal(enrolment(invite("clinic-a"), "client")), HasSubstr("cannot be reached"));
}

TEST_F(EnrolmentTest, GarbageDoesNotStopTheServer) {
  const auto server = serve();
  const FleetInvitation invitation = invite("clinic-a");
  const std::string fingerprint = parse_token(invitation.token).fingerprint;
  for (const std::string& line : {std::string("nonsense"), std::string("{}"), std::string("[1]"),
                                  std::string(R"({"format":1,"time":"x"})"), std::string(R"({"format":7,"time":1})"),
                                  std::string(R"({"format":1,"time":1,"name":7,"secret":[],"request":null})")}) {
    auto peer = TlsSocket::connect(invitation.address, {fingerprint, kServerName}, 5).value_or_throw();
    EXPECT_TRUE(peer.write_line(line));
    EXPECT_THAT(peer.read_line().value_or_throw(), HasSubstr("refused")) << line;
  }
  auto endless = TlsSocket::connect(invitation.address, {fingerprint, kServerName}, 5).value_or_throw();
  (void)endless.write_line(std::string(2 * TlsSocket::kLongestLine, 'x'));
  EXPECT_FALSE(endless.read_line().ok());
  EXPECT_EQ(enrol(enrolment(invitation, "client")).name, "clinic-a");
}

TEST_F(EnrolmentTest, SlowVisitorsAreDisconnected) {
  const auto server = serve();
  const FleetInvitation invitation = invite("clinic-a");
  const std::string fingerprint = parse_token(invitation.token).fingerprint;
  std::vector<TlsSocket> idle;  // as many as are served at once
  for (int i = 0; i < 16; ++i) {
    idle.push_back(TlsSocket::connect(invitation.address, {fingerprint, kServerName}, 60).value_or_throw());
  }
  EXPECT_EQ(enrol(enrolment(invitation, "client")).name, "clinic-a");  // after two seconds
}

}  // namespace
}  // namespace chorus::inline fleet
