#include "infrastructure/fleet/fleet_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/certificates/certificate.h"
#include "infrastructure/fleet/secret.h"
#include "tests/support.h"

namespace chorus::inline fleet {
namespace {

using testing::HasSubstr;
using testing::Not;

class FleetFolderTest : public testing::Test {
 protected:
  FleetFolderTest() { FleetFolder::create({root_ / "fleet", "server.example:7733", 30}, now_); }

  Admission admission(const FleetInvitation& invitation) {
    const Token token = parse_token(invitation.token);
    return {token.name, token.secret, make_request(key_, token.name), now_};
  }
  std::string refusal(const Admission& wanted, std::time_t now) {
    const auto admitted = fleet().admit(wanted, now);
    return admitted.ok() ? "admitted" : admitted.failure().message;
  }
  FleetFolder fleet() const { return FleetFolder(root_ / "fleet"); }
  std::string revoked() const { return read_file(root_ / "fleet" / "revoked"); }
  FleetMember::State state_of(const std::string& name) const {
    for (const FleetMember& member : fleet().members(now_)) {
      if (member.name == name) return member.state;
    }
    ADD_FAILURE() << name << " is no member";
    return {};
  }

  TemporaryFolder root_;
  const std::time_t now_ = std::time(nullptr);
  const std::string key_ = make_key();
};

TEST_F(FleetFolderTest, KeysAreForTheOwnerOnly) {
  for (const char* name : {"authority.key", "server.key", "members.json"}) {
    struct stat status {};
    ASSERT_EQ(::stat((root_ / "fleet" / name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << name;
  }
  const std::string certificate = read_file(root_ / "fleet" / "server.crt");
  EXPECT_EQ(certificate_facts(certificate).name, kServerName);
  EXPECT_EQ(certificate_facts(certificate).until, now_ + 30 * 86'400);
  EXPECT_TRUE(key_fits(read_file(root_ / "fleet" / "server.key"), certificate));
}

TEST_F(FleetFolderTest, AnInvitationWorksOnce) {
  const FleetInvitation invitation = fleet().invite("clinic-a", 1, now_);
  EXPECT_EQ(invitation.address, "server.example:7734");
  EXPECT_EQ(invitation.until, now_ + 3600);
  EXPECT_EQ(state_of("clinic-a"), FleetMember::State::kInvited);
  EXPECT_THAT(read_file(root_ / "fleet" / "members.json"), Not(HasSubstr(parse_token(invitation.token).secret)));
  const Admission first = admission(invitation);
  const auto admitted = fleet().admit(first, now_);
  ASSERT_TRUE(admitted.ok()) << admitted.failure().message;
  EXPECT_EQ(certificate_facts(admitted.value().certificate).name, "clinic-a");
  EXPECT_EQ(certificate_facts(admitted.value().certificate).until, now_ + 30 * 86'400);
  EXPECT_TRUE(key_fits(key_, admitted.value().certificate));
  EXPECT_EQ(admitted.value().server, "server.example:7733");
  EXPECT_EQ(state_of("clinic-a"), FleetMember::State::kJoined);
  // The reply may have been lost: the same request gets the same certificate, another one is refused.
  EXPECT_EQ(fleet().admit(first, now_).value().certificate, admitted.value().certificate);
  Admission second = first;
  second.request = make_request(make_key(), "clinic-a");
  EXPECT_THAT(refusal(second, now_), HasSubstr("used already"));
}

TEST_F(FleetFolderTest, AnInvitationIsForOneNameAndExpires) {
  const Admission good = admission(fleet().invite("clinic-a", 1, now_));
  (void)fleet().invite("clinic-b", 1, now_);
  Admission wrong = good;
  wrong.secret = random_hex(16);
  EXPECT_THAT(refusal(wrong, now_), HasSubstr("not valid"));
  wrong = good;
  wrong.name = "clinic-b";
  EXPECT_THAT(refusal(wrong, now_), HasSubstr("not valid"));
  wrong.name = "nobody";
  EXPECT_THAT(refusal(wrong, now_), HasSubstr("not valid"));
  wrong = good;
  wrong.request = "nonsense";
  EXPECT_THAT(refusal(wrong, now_), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal(good, now_ + 3601), HasSubstr("expired on " + time_text(now_ + 3600)));
  EXPECT_EQ(refusal(good, now_), "admitted");  // none of these used it up
  EXPECT_EQ(revoked(), "");
}

TEST_F(FleetFolderTest, AWrongClockIsNamedAndDoesNotUseUpTheInvitation) {
  Admission wrong = admission(fleet().invite("clinic-a", 48, now_));
  wrong.time = now_ - 86'400;
  EXPECT_EQ(refusal(wrong, now_), "this machine's clock is 24 hours behind the server's; set it, and join again");
  wrong.time = now_ + 600;
  EXPECT_EQ(refusal(wrong, now_), "this machine's clock is 10 minutes ahead of the server's; set it, and join again");
  wrong.time = now_ + 60;
  EXPECT_EQ(refusal(wrong, now_), "admitted");
}

TEST_F(FleetFolderTest, ARevokedClientNeedsANewInvitation) {
  const FleetInvitation invitation = fleet().invite("clinic-a", 1, now_);
  const auto admitted = fleet().admit(admission(invitation), now_);
  ASSERT_TRUE(admitted.ok());
  const std::string first = certificate_facts(admitted.value().certificate).serial;
  fleet().revoke("clinic-a");
  EXPECT_EQ(revoked(), first + "\n");
  EXPECT_EQ(state_of("clinic-a"), FleetMember::State::kRevoked);
  EXPECT_THAT(refusal(admission(invitation), now_), HasSubstr("not valid"));
  const auto again = fleet().admit(admission(fleet().invite("clinic-a", 1, now_)), now_);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(state_of("clinic-a"), FleetMember::State::kJoined);
  EXPECT_EQ(revoked(), first + "\n");  // the old one stays revoked
  // A machine that enrols again: its old certificate is revoked when the new one is issued.
  const std::string second = certificate_facts(again.value().certificate).serial;
  ASSERT_TRUE(fleet().admit(admission(fleet().invite("clinic-a", 1, now_)), now_).ok());
  EXPECT_EQ(revoked(), first + "\n" + second + "\n");
  // An open invitation is cancelled, too.
  const FleetInvitation open = fleet().invite("clinic-b", 1, now_);
  fleet().revoke("clinic-b");
  EXPECT_THAT(refusal(admission(open), now_), HasSubstr("not valid"));
  EXPECT_THAT(message_of<ConfigError>([&] { fleet().revoke("clinic-c"); }), HasSubstr("this fleet has no member"));
}

TEST_F(FleetFolderTest, TheListForBrokersFollowsRevocations) {
  const auto text = [&](const char* file) { return read_file(root_ / "fleet" / "broker" / file); };
  EXPECT_THAT(text("acl"), HasSubstr("pattern write chorus/up/%u\n"));
  EXPECT_THAT(text("acl"), HasSubstr("user chorus-server\ntopic read chorus/up/+\n"));
  EXPECT_EQ(text("members"), "");
  const auto admit = [&] {
    const auto admitted = fleet().admit(admission(fleet().invite("clinic-a", 1, now_)), now_);
    return fmt::format("{} clinic-a\n", certificate_facts(admitted.value().certificate).until);
  };
  std::string line = admit();
  EXPECT_EQ(text("members"), line);
  fleet().revoke("clinic-a");
  EXPECT_EQ(text("members"), "0 clinic-a\n");
  line = admit();
  EXPECT_EQ(text("members"), line);
  EXPECT_THAT(text("mosquitto.conf"), HasSubstr("\nlistener 7733\n"));
}

// What a broker checks, by the openssl program.
TEST_F(FleetFolderTest, BrokersHaveASignedListOfRevokedCertificates) {
  if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "the openssl program is not installed";
  const std::filesystem::path own = root_ / "fleet";
  const auto accepted = [&](const std::string& certificate) {
    std::ofstream(root_ / "one.crt") << certificate;
    const std::string command = fmt::format(
        "openssl verify -crl_check -CAfile {0}/authority.crt -CRLfile "
        "{0}/broker/revoked.crl {1}/one.crt > /dev/null 2>&1",
        own.string(), root_.path().string());
    return std::system(command.c_str()) == 0;
  };
  const auto admit = [&] {
    return fleet().admit(admission(fleet().invite("clinic-a", 1, now_)), now_).value().certificate;
  };
  EXPECT_THAT(read_file(own / "broker" / "mosquitto.conf"),
              HasSubstr(fmt::format("\ncrlfile {}/broker/revoked.crl\n", own.string())));
  const std::string first = admit();
  EXPECT_TRUE(accepted(first));
  fleet().revoke("clinic-a");
  EXPECT_FALSE(accepted(first));
  const std::string second = admit();
  EXPECT_FALSE(accepted(first));
  EXPECT_TRUE(accepted(second));
  // Without the authority's key the server's own list is complete, and the broker's follows once the key is back.
  for (const bool damaged : {false, true}) {
    const std::string certificate = admit();
    std::filesystem::rename(own / "authority.key", root_ / "kept.key");
    if (damaged) std::ofstream(own / "authority.key") << "nonsense";
    fleet().revoke("clinic-a");
    EXPECT_THAT(revoked(), HasSubstr(certificate_facts(certificate).serial));
    EXPECT_EQ(state_of("clinic-a"), FleetMember::State::kRevoked);
    EXPECT_TRUE(accepted(certificate));
    std::filesystem::rename(root_ / "kept.key", own / "authority.key");
    (void)fleet().rotate(now_);
    EXPECT_FALSE(accepted(certificate));
  }
}

TEST_F(FleetFolderTest, OnlyACertificateThatTheBrokerDoesNotKnowAsRevokedIsWarnedAbout) {
  (void)fleet().invite("invited", 1, now_);
  (void)fleet().admit(admission(fleet().invite("joined", 1, now_)), now_).value_or_throw();
  std::filesystem::remove(root_ / "fleet" / "authority.key");
  const auto said = [&](const std::string& name) {
    testing::internal::CaptureStderr();
    fleet().revoke(name);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said("invited"), "");
  EXPECT_THAT(said("joined"), HasSubstr("If this fleet has an MQTT broker, put"));
  EXPECT_EQ(said("joined"), "") << "it had no certificate any more";
}

TEST_F(FleetFolderTest, TheServersCertificateIsRenewed) {
  const std::string before = read_file(root_ / "fleet" / "server.crt");
  const std::time_t until = fleet().rotate(now_ + 86'400);
  const std::string after = read_file(root_ / "fleet" / "server.crt");
  EXPECT_EQ(until, now_ + 31 * 86'400);
  EXPECT_EQ(certificate_facts(after).until, until);
  EXPECT_NE(certificate_facts(after).serial, certificate_facts(before).serial);
  EXPECT_TRUE(key_fits(read_file(root_ / "fleet" / "server.key"), after));
  // Never beyond the authority's own.
  const std::time_t last = certificate_facts(read_file(root_ / "fleet" / "authority.crt")).until;
  EXPECT_EQ(fleet().rotate(last - 86'400), last);
}

TEST_F(FleetFolderTest, ProcessesMayInviteAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] { (void)fleet().invite("client-" + std::to_string(i), 1, now_); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fleet().members(now_).size(), 8U);
}

TEST_F(FleetFolderTest, MistakesAreNamed) {
  const auto create = [&](const FleetCreation& creation) {
    return message_of<ConfigError>([&] { FleetFolder::create(creation, now_); });
  };
  EXPECT_THAT(create({root_ / "fleet", "host:7733", 30}), HasSubstr("holds a fleet already"));
  for (const char* address : {"host", "host:", ":7733", "host:0", "host:65535", "host:99999999999", "host:7x"}) {
    EXPECT_THAT(create({root_ / "other", address, 30}), HasSubstr("must be HOST:PORT")) << address;
  }
  for (const char* address : {":::1:77", "::1:7733", "fd00::1:7733", "[::1:77", "::1]:77", "[]:77", "[host]:77"}) {
    EXPECT_THAT(create({root_ / "other", address, 30}), HasSubstr("an IPv6 address in brackets")) << address;
    EXPECT_THAT(create({root_ / "other", "host:7733", 30, address}), HasSubstr("an IPv6 address in brackets"));
  }
  FleetFolder::create({root_ / "six", "[fd00::1]:7733", 30}, now_);
  EXPECT_EQ(FleetFolder(root_ / "six").enrolment_address(), "[fd00::1]:7734");
  EXPECT_THAT(create({root_ / "other", "0.0.0.0:7733", 30}), HasSubstr("this one with --listen"));
  EXPECT_THAT(create({root_ / "other", "host:7733", 30, "everywhere"}), HasSubstr("must be HOST:PORT"));
  EXPECT_THAT(create({root_ / "other", "host:7733", 0}), HasSubstr("days is 0"));
  EXPECT_THAT(message_of<DataError>([&] { FleetFolder none(root_ / "nowhere"); }), HasSubstr("chorus fleet init"));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)fleet().invite(kServerName, 1, now_); }),
              HasSubstr("the server's name"));
  EXPECT_THAT(message_of<DataError>([&] { (void)fleet().invite("a b", 1, now_); }), HasSubstr("letters, digits"));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)fleet().invite("a", 0, now_); }), HasSubstr("0 hours"));
  std::ofstream(root_ / "fleet" / "members.json") << "{}";
  EXPECT_THAT(message_of<DataError>([&] { (void)fleet().members(now_); }), HasSubstr("members.json is damaged"));
}

TEST_F(FleetFolderTest, AServerMayListenElsewhereThanClientsReachIt) {
  FleetFolder::create({root_ / "behind", "public.example:7733", 30, "0.0.0.0:9000"}, now_);
  const FleetFolder folder(root_ / "behind");
  EXPECT_EQ(folder.address(), "public.example:7733");
  EXPECT_EQ(folder.enrolment_address(), "public.example:7734");
  EXPECT_EQ(folder.listening_address(), "0.0.0.0:9000");
  EXPECT_EQ(folder.enrolment_listening_address(), "0.0.0.0:9001");
  const auto listener = [&](const std::string& listen) {
    FleetFolder::create({root_ / listen, "public.example:7733", 30, listen}, now_);
    return read_file(root_ / listen / "broker" / "mosquitto.conf");
  };
  EXPECT_THAT(read_file(root_ / "behind" / "broker" / "mosquitto.conf"), HasSubstr("\nlistener 9000\n"));
  EXPECT_THAT(listener("10.0.0.5:9000"), HasSubstr("\nlistener 9000 10.0.0.5\n"));
  EXPECT_THAT(listener("[::1]:9000"), HasSubstr("\nlistener 9000 ::1\n"));
}

}  // namespace
}  // namespace chorus::inline fleet
