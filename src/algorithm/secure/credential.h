#pragma once

#include <ctime>
#include <string>

#include "algorithm/secure/primitives.h"
#include "core/base/result.h"

namespace chorus::inline secure {

/// Ties the key that a client signs secure sums with to its certificate: the certificate's key signs it. Everybody who
/// has the authority's certificate can check that, so a server cannot put a key of its own in the place of a client's.
///
///     const SigningKeys keys = signing_keys_of({certificate, key});                           // on the client
///     const Bytes credential = issue_credential({certificate, key}, keys.open);
///     Result<std::string> name = name_in_credential({credential, keys.open, authority, now});  // on the others
///
/// As bytes: the length of the certificate (4, little-endian), the certificate (DER), the signature (DER).
struct CertifiedKey {
  std::string certificate;  ///< PEM
  std::string key;          ///< PEM, private: wiped at the end
  ~CertifiedKey() { wipe(key.data(), key.size()); }
};
/// Keys that are derived from the private key: the same ones as long as the certificate's key is the same.
SigningKeys signing_keys_of(const CertifiedKey& own);
/// DataError when one of them cannot be read, or they do not belong together.
Bytes issue_credential(const CertifiedKey& own, const PublicKey& signer);

struct CredentialInput {
  ByteView credential;
  const PublicKey& signer;
  const std::string& authority;  ///< PEM
  std::time_t now = 0;
};
/// The name in the certificate. Failure: it is no client's certificate of this authority, not valid now, or the
/// signature is not of this key.
Result<std::string> name_in_credential(const CredentialInput& input);

}  // namespace chorus::inline secure
