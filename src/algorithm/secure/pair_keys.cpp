#include "algorithm/secure/pair_keys.h"

#include <algorithm>

namespace chorus::inline secure {

Digest session_id(const Digest& context, const std::vector<Advertisement>& keys) {
  Hash hash("chorus secure sum session");
  hash.add(context).add(keys.size());
  for (const Advertisement& key : keys) {
    hash.add(key.client).add(key.sealing).add(key.masking).add(key.commitment).add(key.signature);
  }
  return hash.digest();
}

Key sealing_key(const Key& shared, const Digest& session, ClientId from, ClientId to) {
  return derive_key(shared.view(), session, Hash("chorus secure sum seal").add(from).add(to).digest());
}

Digest sealing_bound(const Digest& session, ClientId from, ClientId to) {
  return Hash("chorus secure sum shares").add(session).add(from).add(to).digest();
}

Key pair_mask_key(const Key& shared, const Digest& session, ClientId a, ClientId b) {
  const auto [small, large] = std::minmax(a, b);
  return derive_key(shared.view(), session, Hash("chorus secure sum pair mask").add(small).add(large).digest());
}

Key own_mask_key(const Key& seed, const Digest& session, ClientId client) {
  return derive_key(seed.view(), session, Hash("chorus secure sum own mask").add(client).digest());
}

Key masking_secret(const Key& seed) {
  return derive_key(seed.view(), {}, Hash("chorus secure sum masking key").digest());
}

Digest commitment_to(const Key& seed, const Digest& context, ClientId client) {
  const Key hidden = derive_key(seed.view(), context, Hash("chorus secure sum commitment").add(client).digest());
  Digest commitment;
  std::copy(hidden.view().begin(), hidden.view().end(), commitment.begin());
  return commitment;
}

Digest survivors_digest(const Digest& session, const std::vector<ClientId>& survivors) {
  Hash hash("chorus secure sum survivors");
  hash.add(session).add(survivors.size());
  for (const ClientId client : survivors) hash.add(client);
  return hash.digest();
}

}  // namespace chorus::inline secure
