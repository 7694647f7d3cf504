#pragma once

#include "algorithm/secure/messages.h"

/// The keys of a secure sum. Each is HKDF of a secret with the session id as salt and its purpose and clients as
/// context, so no two masks, seals, sessions or rounds share a key.
namespace chorus::inline secure {

/// The id of a session: a hash of its context and of all clients' keys.
Digest session_id(const Digest& context, const std::vector<Advertisement>& keys);

/// Seals a message from `from` to `to`; `shared` is their X25519 result.
Key sealing_key(const Key& shared, const Digest& session, ClientId from, ClientId to);
/// The associated data that such a message is bound to.
Digest sealing_bound(const Digest& session, ClientId from, ClientId to);

/// The mask of a pair of clients: the one with the smaller id adds it, the other subtracts it.
Key pair_mask_key(const Key& shared, const Digest& session, ClientId a, ClientId b);
/// The mask of one client alone.
Key own_mask_key(const Key& seed, const Digest& session, ClientId client);
/// The X25519 secret derived from a shared seed.
Key masking_secret(const Key& seed);
/// The public commitment to the seed of a client's own mask.
Digest commitment_to(const Key& seed, const Digest& context, ClientId client);

/// The digest of the survivors that a client signs.
Digest survivors_digest(const Digest& session, const std::vector<ClientId>& survivors);

}  // namespace chorus::inline secure
