#include "infrastructure/certificates/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline certificates {
namespace {

using testing::HasSubstr;

constexpr std::time_t kDay = 86'400;

struct Signed {
  std::time_t now = std::time(nullptr);
  std::string root_key = make_key(), root = make_authority({root_key, "fleet", now - kDay, now + 10 * kDay});
  std::string key = make_key();
  std::string request = make_request(key, "somebody-else");
  std::string leaf = sign_request({root, root_key, request, "clinic-7", now - 60, now + kDay});
};

TEST(Certificate, NameAndDatesComeFromTheAuthority) {
  const Signed made;
  const CertificateFacts facts = certificate_facts(made.leaf);
  EXPECT_EQ(facts.name, "clinic-7");  // not what the request asks for
  EXPECT_EQ(facts.from, made.now - 60);
  EXPECT_EQ(facts.until, made.now + kDay);
  EXPECT_EQ(facts.fingerprint.size(), 64U);
  EXPECT_NE(facts.serial, certificate_facts(made.root).serial);
  EXPECT_TRUE(key_fits(made.key, made.leaf));
  EXPECT_FALSE(key_fits(made.root_key, made.leaf));
}

TEST(Certificate, IsAcceptedByTheOpensslProgram) {
  if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "the openssl program is not installed";
  const Signed made;
  const TemporaryFolder folder;
  std::ofstream(folder / "root.pem") << made.root;
  std::ofstream(folder / "leaf.pem") << made.leaf;
  const auto verify = [&](const std::string& options) {
    const std::string command = "openssl verify " + options + " -CAfile " + (folder / "root.pem").string() + " " +
                                (folder / "leaf.pem").string() + " > /dev/null 2>&1";
    return std::system(command.c_str()) == 0;
  };
  EXPECT_TRUE(verify("-x509_strict -purpose sslclient -verify_hostname clinic-7"));
  EXPECT_FALSE(verify("-purpose sslserver"));  // a client certificate cannot act as a server
  EXPECT_FALSE(verify("-verify_hostname clinic-8"));
  EXPECT_FALSE(verify("-attime " + std::to_string(made.now + 2 * kDay)));
  std::ofstream(folder / "root.pem") << Signed().root;  // another fleet with the same name
  EXPECT_FALSE(verify("-purpose sslclient"));
}

TEST(Certificate, ListsOfRevokedOnesAreAcceptedByTheOpensslProgram) {
  if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "the openssl program is not installed";
  const Signed made;
  const TemporaryFolder folder;
  std::ofstream(folder / "root.pem") << made.root;
  std::ofstream(folder / "leaf.pem") << made.leaf;
  const auto list = [&](std::vector<std::string> serials) {
    std::ofstream(folder / "list.pem") << make_revocations(
        {made.root, made.root_key, std::move(serials), made.now - 60, made.now + kDay});
  };
  const auto verify = [&](const std::string& options = "") {
    const std::string command = "openssl verify -x509_strict -crl_check " + options + " -CAfile " +
                                (folder / "root.pem").string() + " -CRLfile " + (folder / "list.pem").string() + " " +
                                (folder / "leaf.pem").string() + " > /dev/null 2>&1";
    return std::system(command.c_str()) == 0;
  };
  const std::string serial = certificate_facts(made.leaf).serial;
  list({});
  EXPECT_TRUE(verify());
  EXPECT_FALSE(verify("-attime " + std::to_string(made.now - 120))) << "the list is not valid yet";
  list({certificate_facts(made.root).serial});
  EXPECT_TRUE(verify());
  list({certificate_facts(made.root).serial, serial});
  EXPECT_FALSE(verify());
  const Signed other;
  std::ofstream(folder / "list.pem") << make_revocations({other.root, other.root_key, {}, made.now - 60, made.now});
  EXPECT_FALSE(verify()) << "another authority's list";
}

TEST(Certificate, ListsOfRevokedOnesNeedTheAuthoritysKeyAndSerialNumbers) {
  const Signed made;
  const auto list = [&](const std::string& key, const std::string& serial) {
    return message_of<DataError>([&] { (void)make_revocations({made.root, key, {serial}, made.now, made.now}); });
  };
  EXPECT_THAT(list(made.key, "AB"), HasSubstr("not the authority's"));
  for (const char* serial : {"", "x", "ABx", "-"}) EXPECT_THAT(list(made.root_key, serial), HasSubstr("hexadecimal"));
  EXPECT_EQ(list(made.root_key, "AB"), kNothingThrown);
}

TEST(Certificate, RefusesWhatCannotBeSigned) {
  const Signed made;
  const auto sign = [&](const std::string& request, const std::string& name) {
    return message_of<DataError>([&] {
      (void)sign_request({made.root, made.root_key, request, name, made.now, made.now + kDay});
    });
  };
  EXPECT_THAT(sign("nonsense", "a"), HasSubstr("cannot be read"));
  EXPECT_THAT(sign(made.request, ""), HasSubstr("1 to 64 letters"));
  EXPECT_THAT(sign(made.request, std::string(65, 'a')), HasSubstr("1 to 64 letters"));
  EXPECT_THAT(sign(made.request, "a,DNS:chorus-server"), HasSubstr("1 to 64 letters"));
  // A request whose key was replaced: the base64 text of its middle is changed.
  std::string forged = made.request;
  const std::size_t middle = forged.find('\n') + 100;
  forged[middle] = forged[middle] == 'A' ? 'B' : 'A';
  EXPECT_NE(sign(forged, "a"), kNothingThrown);
  EXPECT_THAT(message_of<DataError>([] { (void)certificate_facts("nonsense"); }), HasSubstr("not a PEM certificate"));
}

TEST(Certificate, TimesAreReadable) { EXPECT_EQ(time_text(0), "1970-01-01 00:00 UTC"); }

}  // namespace
}  // namespace chorus::inline certificates
