// Identities of secure sums that are tied to the certificates of a fleet.
#include "algorithm/secure/credential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>

#include "algorithm/secure_mean/identity.h"
#include "core/base/error.h"
#include "core/ports/state_supplement.h"
#include "infrastructure/certificates/certificate.h"
#include "tests/support.h"

namespace chorus::inline contract {
namespace {

using testing::HasSubstr;

constexpr std::time_t kHour = 3600;

/// A fleet's authority, and the files of its members.
class Members {
 public:
  explicit Members(const std::string& name)
      : key_(make_key()), authority_(make_authority({key_, name, now_ - kHour, now_ + 100 * kHour})) {}

  CertifiedKey certified(const std::string& name, CertificateRole role = CertificateRole::kClient) const {
    const std::string key = make_key();
    return {sign_request({authority_, key_, make_request(key, name), name, now_ - kHour, now_ + kHour, role}), key};
  }
  /// What the process of a client adds to its state.
  ClientState state(const CertifiedKey& own, const std::string& job = "a job") const {
    const auto write = [this](const char* name, const std::string& text) {
      std::ofstream(folder_ / name) << text;
      return folder_ / name;
    };
    return StateSupplements::make("secure_identity")
        ->tensors({{"", write("client.crt", own.certificate), write("client.key", own.key),
                    write("authority.crt", authority_)},
                   job});
  }
  const std::string& authority() const { return authority_; }
  std::time_t now() const { return now_; }

 private:
  std::time_t now_ = std::time(nullptr);
  std::string key_, authority_;
  TemporaryFolder folder_;
};

std::string why_not(ClientState& state, ClientId self, const PublicIdentities& cohort) {
  return message_of<DataError>([&] { meet(state, self, cohort); });
}

TEST(Credential, ACertifiedKeyIsRecognisedAndNoOtherIs) {
  const Members fleet("fleet"), others("others");
  const CertifiedKey own = fleet.certified("clinic");
  const SigningKeys keys = signing_keys_of(own);
  EXPECT_EQ(keys.open, signing_keys_of(own).open) << "the same as long as the certificate's key is";
  EXPECT_TRUE(verify(keys.open, {}, sign(keys.secret, {})));
  const Bytes credential = issue_credential(own, keys.open);
  const auto name = [&](const Bytes& bytes, const PublicKey& signer, const std::string& authority, std::time_t now) {
    const auto found = name_in_credential({bytes, signer, authority, now});
    return found.ok() ? found.value() : found.failure().message;
  };
  EXPECT_EQ(name(credential, keys.open, fleet.authority(), fleet.now()), "clinic");
  EXPECT_THAT(name(credential, new_signing_keys().open, fleet.authority(), fleet.now()), HasSubstr("did not sign"));
  EXPECT_THAT(name(credential, keys.open, others.authority(), fleet.now()), HasSubstr("not a valid one"));
  EXPECT_THAT(name(credential, keys.open, fleet.authority(), fleet.now() + 2 * kHour), HasSubstr("not a valid one"));
  const CertifiedKey server = fleet.certified("server", CertificateRole::kServer);
  EXPECT_THAT(name(issue_credential(server, keys.open), keys.open, fleet.authority(), fleet.now()),
              HasSubstr("not a valid one"));
  EXPECT_THROW(issue_credential({own.certificate, make_key()}, keys.open), DataError);
  // Bytes that are none: no length is believed.
  for (std::size_t size = 0; size < credential.size(); size += 7) {
    const Bytes shorter(credential.begin(), credential.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(name(shorter, keys.open, fleet.authority(), fleet.now()), "clinic") << size;
  }
  for (std::size_t at = 0; at < credential.size(); at += 3) {
    Bytes changed = credential;
    changed[at] ^= std::byte{0x41};
    EXPECT_NE(name(changed, keys.open, fleet.authority(), fleet.now()), "clinic") << at;
  }
}

// 4c, case 8: in a fleet nobody needs to have met a client before to notice another key in its place.
TEST(Credential, Case8ClientsOfAFleetRefuseKeysWithoutACertificate) {
  const Members fleet("fleet"), others("others");
  std::map<ClientId, ClientState> states;
  PublicIdentities cohort;
  for (ClientId id = 0; id < 4; ++id) {
    states[id] = fleet.state(fleet.certified("client" + std::to_string(id)));
    cohort[id] = public_identity_in(states[id]);
  }
  std::vector<ClientId> ids{0, 1, 2, 3};
  const at::Tensor sent = identities_tensor(cohort);
  const auto* const bytes = static_cast<const std::byte*>(sent.data_ptr());
  const ByteView view(bytes, static_cast<std::size_t>(sent.numel()));
  EXPECT_EQ(keys_of(read_identities(view, ids)), keys_of(cohort));
  EXPECT_THROW(read_identities(view.first(view.size() - 1), ids), DataError);
  EXPECT_THROW(read_identities(view, {0, 1, 2}), DataError);
  EXPECT_NO_THROW(meet(states[0], 0, cohort));

  PublicIdentities lie = cohort;
  lie[2].key = new_signing_keys().open;
  EXPECT_THAT(why_not(states[0], 0, lie), HasSubstr("client 2 is not certified"));
  EXPECT_THAT(why_not(states[2], 2, lie), HasSubstr("another identity of this client"));
  lie = cohort;
  lie[2].credential.clear();
  EXPECT_THAT(why_not(states[0], 0, lie), HasSubstr("client 2 is not certified"));
  ClientState stranger = others.state(others.certified("client2"));
  lie[2] = public_identity_in(stranger);
  EXPECT_THAT(why_not(states[0], 0, lie), HasSubstr("client 2 is not certified"));
  ClientState misled = fleet.state(fleet.certified("client4"), "another job");
  lie = cohort;
  lie[4] = public_identity_in(misled);
  EXPECT_THAT(why_not(states[0], 0, lie), HasSubstr("client 4 was given another configuration"));
  EXPECT_THAT(why_not(misled, 4, lie), HasSubstr("client 0 was given another configuration"));
  lie[4].configuration = lie[0].configuration;
  EXPECT_THAT(why_not(misled, 4, lie), HasSubstr("another identity of this client"));
  lie = cohort;
  lie[3] = lie[2];
  EXPECT_THAT(why_not(states[0], 0, lie), HasSubstr("occurs twice"));
}

}  // namespace
}  // namespace chorus::inline contract
