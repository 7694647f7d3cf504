#pragma once

#include <map>
#include <memory>
#include <vector>

#include "algorithm/secure/primitives.h"
#include "core/ports/workbench.h"

namespace chorus::inline secure_mean {

/// Who signs in a secure sum against an active server. A client's Ed25519 keys lie in its state and never change. It
/// also remembers the public key of every client it has been in a sum with, and refuses another one later: a server can
/// put itself in the place of a client only for those who have never met it.
///
/// Keys of a client; made and put into its state on first use.
std::shared_ptr<const SigningKeys> identity_in(ClientState& state);

/// Compares the keys of a cohort with those that are known, and remembers new ones. DataError for a key that has
/// changed, or when the client's own is another.
void meet(ClientState& state, ClientId self, const std::map<ClientId, PublicKey>& cohort);

/// Keys in the order of the cohort, as bytes of a request, and back. DataError for another number of bytes.
at::Tensor keys_tensor(const std::map<ClientId, PublicKey>& cohort);
std::map<ClientId, PublicKey> read_keys_tensor(ByteView bytes, const std::vector<ClientId>& cohort);

}  // namespace chorus::inline secure_mean
