#pragma once

#include <map>
#include <memory>
#include <vector>

#include "algorithm/secure/primitives.h"
#include "core/ports/workbench.h"

namespace chorus::inline secure_mean {

/// Who signs in a secure sum against an active server. Where a client has joined a fleet, its process adds three
/// tensors to its state (core/ports/state_supplement.h): Ed25519 keys, a credential that ties them to its certificate
/// (algorithm/secure/credential.h), and the certificate of the fleet's authority. It refuses a cohort in which somebody
/// has no valid credential, or two have the same certificate: a server can put itself in the place of a client only if
/// it has the authority's key.
///
/// Without a fleet, in a simulation, the keys are made on first use and stored in the state. A client remembers the
/// public key of every client it has been in a sum with, and refuses another one later.
inline constexpr const char* kOwnKeys = "secure.identity";          ///< secret (64 bytes), public (32 bytes)
inline constexpr const char* kOwnCredential = "secure.credential";  ///< bytes
inline constexpr const char* kAuthority = "secure.authority";       ///< PEM
/// Bytes that say what the server told this client to do beside its requests, such as a digest of the job.
inline constexpr const char* kConfiguration = "secure.configuration";

/// Keys of a client; made and put into its state if it has none.
std::shared_ptr<const SigningKeys> identity_in(ClientState& state);
/// As a tensor of the state.
at::Tensor identity_tensor(const SigningKeys& keys);

/// What others see of a client: its public key, what it was told to do, and its credential if it has one. The list of
/// all is part of the request and thus of every key, so clients that were told to do different things cannot be summed.
struct PublicIdentity {
  PublicKey key = {};
  Digest configuration = {};
  Bytes credential = {};
};
using PublicIdentities = std::map<ClientId, PublicIdentity>;
PublicIdentity public_identity_in(ClientState& state);

/// Compares the identities of a cohort with those that are known, checks credentials, and remembers new ones. DataError
/// for a key that has changed or is not certified, for a client that was told to do something else, or when the
/// client's own is another.
void meet(ClientState& state, ClientId self, const PublicIdentities& cohort);

/// The reply to secure/identify, and back. DataError for bytes that are none.
Bytes write_identity(const PublicIdentity& identity);
PublicIdentity read_identity(ByteView bytes);
/// In the order of the cohort, as bytes of a request, and back. DataError for bytes of another cohort.
at::Tensor identities_tensor(const PublicIdentities& cohort);
PublicIdentities read_identities(ByteView bytes, const std::vector<ClientId>& cohort);
/// Who signs with which key: SumSession::identities.
std::map<ClientId, PublicKey> keys_of(const PublicIdentities& identities);

}  // namespace chorus::inline secure_mean
