#include "infrastructure/fleet/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline fleet {
namespace {

using testing::HasSubstr;

TEST(Secret, IsRandomAndHasTheDigestOfSha256) {
  EXPECT_EQ(random_hex(16).size(), 32U);
  EXPECT_NE(random_hex(16), random_hex(16));
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(digest_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "abcd"));
}

TEST(Secret, OnlyTheOwnerCanReadItsFile) {
  const TemporaryFolder folder;
  std::ofstream(folder / "key") << "an old one that everybody can read";
  ASSERT_EQ(::chmod((folder / "key").c_str(), 0644), 0);
  write_secret(folder / "key", "secret");
  struct stat status {};
  ASSERT_EQ(::stat((folder / "key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  std::ifstream file(folder / "key");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "secret");
  EXPECT_THAT(message_of<DataError>([&] { write_secret(folder / "none" / "key", "x"); }),
              HasSubstr("cannot be written"));
}

TEST(Token, RoundTripsUnlessTruncated) {
  const Token token{"clinic-a", random_hex(16), random_hex(32)};
  EXPECT_EQ(parse_token(token.text()).name, "clinic-a");
  EXPECT_EQ(parse_token(token.text()).secret, token.secret);
  EXPECT_EQ(parse_token(token.text()).fingerprint, token.fingerprint);
  const std::string text = token.text();
  for (const std::string& wrong : {std::string(), std::string("clinic-a"), text.substr(1 + text.find(':')),
                                   text.substr(0, text.size() - 1), text + "0", ":" + text, text + " "}) {
    EXPECT_THAT(message_of<ConfigError>([&] { (void)parse_token(wrong); }), HasSubstr("copy the whole line")) << wrong;
  }
}

}  // namespace
}  // namespace chorus::inline fleet
