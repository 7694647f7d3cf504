// The fleet commands as a user types them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "tests/program.h"
#include "tests/support.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class FleetCliTest : public testing::Test {
 protected:
  void SetUp() override {
    if (chorus("list fleet").output.find("not in this build") != std::string::npos) {
      GTEST_SKIP() << "this build has no OpenSSL";
    }
  }
  chorus::Outcome chorus(const std::string& arguments) const {
    return chorus::run_program(CHORUS_PROGRAM, arguments + " 2>&1");
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  chorus::TemporaryFolder folder_;
};

TEST_F(FleetCliTest, FromNothingToAClientThatHasJoined) {
  const std::string fleet = " --fleet " + path("fleet");
  const std::string port = std::to_string(20'000 + ::getpid() % 20'000);
  EXPECT_EQ(chorus("fleet init " + path("fleet") + " --address 127.0.0.1:" + port).status, 0);
  const chorus::Outcome invited = chorus("fleet invite clinic-a -q" + fleet);
  EXPECT_EQ(invited.status, 0);
  EXPECT_THAT(invited.output, StartsWith("chorus join 127.0.0.1:"));
  EXPECT_THAT(chorus("fleet list" + fleet).output, AllOf(HasSubstr("clinic-a"), HasSubstr("invited")));
  const std::string line = invited.output.substr(7, invited.output.find('\n') - 7);
  EXPECT_EQ(chorus(line + " --identity " + path("too_early")).status, 4);  // `fleet admit` is not running yet
  // In the background, until the client has joined.
  const std::string admit = std::string("sh -c '") + CHORUS_PROGRAM + " fleet admit" + fleet + " & sleep 1; " +
                            CHORUS_PROGRAM + " " + line + " --identity " + path("client") +
                            "; echo status $?; kill $!; wait'";
  const chorus::Outcome joined = chorus::run_program(admit, "2>&1");
  EXPECT_THAT(joined.output, AllOf(HasSubstr("joined as clinic-a"), HasSubstr("status 0"), HasSubstr("has joined")));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "client" / "client.crt"));
  EXPECT_THAT(chorus("fleet list" + fleet).output, AllOf(HasSubstr("clinic-a"), HasSubstr("joined")));
  EXPECT_THAT(chorus("fleet rotate" + fleet).output, HasSubstr("valid until"));
  EXPECT_EQ(chorus("fleet revoke clinic-a" + fleet).status, 0);
  EXPECT_THAT(chorus("fleet list" + fleet).output, AllOf(HasSubstr("clinic-a"), HasSubstr("revoked")));
}

// A machine's own name often means the loopback to itself, so a server that listened there would be out of reach.
TEST_F(FleetCliTest, WithoutAnAddressTheServerListensOnAllNetworks) {
  const chorus::Outcome made = chorus("fleet init " + path("fleet"));
  EXPECT_EQ(made.status, 0);
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  const std::string name = host.data();
  EXPECT_THAT(made.output,
              HasSubstr("\nClients look for the server at " + name + ":7733; it listens at 0.0.0.0:7733.\n"));
  EXPECT_THAT(chorus("fleet invite clinic-a -q --fleet " + path("fleet")).output,
              StartsWith("chorus join " + name + ":7734 "));
  EXPECT_THAT(chorus("fleet init " + path("inside") + " --listen 127.0.0.1:9000").output,
              HasSubstr(name + ":7733; it listens at 127.0.0.1:9000.\n"));
  EXPECT_THAT(chorus("fleet init " + path("named") + " --address 127.0.0.1:9000").output,
              HasSubstr("at 127.0.0.1:9000; it listens at 127.0.0.1:9000.\n"));
}

TEST_F(FleetCliTest, MistakesHaveTheirExitStatus) {
  EXPECT_EQ(chorus("fleet").status, 2);
  EXPECT_EQ(chorus("fleet init " + path("fleet") + " --address nowhere").status, 2);
  ASSERT_EQ(chorus("fleet init " + path("fleet") + " --address 127.0.0.1:9000").status, 0);
  const chorus::Outcome twice = chorus("fleet invite clinic-a clinic-b clinic-a --fleet " + path("fleet"));
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.output, HasSubstr("clinic-a is named twice"));
  EXPECT_THAT(chorus("fleet list --fleet " + path("fleet")).output, Not(HasSubstr("clinic-a"))) << "nobody was invited";
  const chorus::Outcome none = chorus("fleet list --fleet " + path("nothing"));
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.output, HasSubstr("chorus fleet init"));
  const chorus::Outcome token = chorus("join 127.0.0.1:1 --token clinic-a:12 --identity " + path("client"));
  EXPECT_EQ(token.status, 2);
  EXPECT_THAT(token.output, HasSubstr("copy the whole line"));
}

}  // namespace
