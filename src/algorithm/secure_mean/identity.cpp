#include "algorithm/secure_mean/identity.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <set>

#include "algorithm/secure/credential.h"
#include "algorithm/secure_mean/sum_plan.h"
#include "core/base/error.h"

namespace chorus::inline secure_mean {
namespace {

constexpr const char* kKnownIds = "secure.known_ids";
constexpr const char* kKnownKeys = "secure.known_keys";

// A tensor of a client's own state; nothing when it has none, or one that does not fit.
const std::byte* state_bytes(const ClientState& state, const char* name, std::int64_t size) {
  const auto found = state.find(name);
  if (found == state.end() || found->second.nbytes() != static_cast<std::size_t>(size) ||
      !found->second.is_contiguous() || !found->second.is_cpu()) {
    return nullptr;
  }
  return static_cast<const std::byte*>(found->second.data_ptr());
}

/// The bytes of a tensor of any length; empty when there is none.
ByteView state_view(const ClientState& state, const char* name) {
  const auto found = state.find(name);
  if (found == state.end()) return {};
  const auto size = static_cast<std::int64_t>(found->second.nbytes());
  const std::byte* bytes = state_bytes(state, name, size);
  return bytes == nullptr ? ByteView() : ByteView(bytes, static_cast<std::size_t>(size));
}

constexpr std::int64_t kSecret = 64, kOpen = 32;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMostCredential = 32768;

/// Every member of the cohort is another certified client of the fleet.
void check_credentials(const std::string& authority, const PublicIdentities& cohort) {
  std::set<std::string> names;
  for (const auto& [client, identity] : cohort) {
    const auto name = name_in_credential({identity.credential, identity.key, authority, std::time(nullptr)});
    if (!name) throw DataError(fmt::format("client {} is not certified: {}", client, name.failure().message));
    if (!names.insert(name.value()).second) {
      throw DataError(fmt::format("the certificate of {} occurs twice in the cohort", name.value()));
    }
  }
}

}  // namespace

std::shared_ptr<const SigningKeys> identity_in(ClientState& state) {
  auto keys = std::make_shared<SigningKeys>();
  if (const std::byte* bytes = state_bytes(state, kOwnKeys, kSecret + kOpen)) {
    std::copy_n(bytes, kSecret, keys->secret.data());
    std::copy_n(bytes + kSecret, kOpen, keys->open.begin());
    return keys;
  }
  *keys = new_signing_keys();
  state[kOwnKeys] = identity_tensor(*keys);
  return keys;
}

at::Tensor identity_tensor(const SigningKeys& keys) {
  // Wiped when nobody holds the tensor any more.
  auto* const bytes = new std::byte[kSecret + kOpen];
  const auto let_go = [](void* memory) {
    wipe(memory, kSecret + kOpen);
    delete[] static_cast<std::byte*>(memory);
  };
  at::Tensor stored = at::from_blob(bytes, {kSecret + kOpen}, let_go, at::kByte);
  std::copy_n(keys.secret.data(), kSecret, bytes);
  std::copy(keys.open.begin(), keys.open.end(), bytes + kSecret);
  return stored;
}

PublicIdentity public_identity_in(ClientState& state) {
  const ByteView credential = state_view(state, kOwnCredential);
  return {identity_in(state)->open, Hash("chorus configuration").add(state_view(state, kConfiguration)).digest(),
          Bytes(credential.begin(), credential.end())};
}

void meet(ClientState& state, ClientId self, const PublicIdentities& cohort) {
  const PublicIdentity mine = public_identity_in(state);
  const auto own = cohort.find(self);
  if (own == cohort.end() || own->second.key != mine.key || own->second.configuration != mine.configuration) {
    throw DataError("the server shows another identity of this client than its own");
  }
  for (const auto& [client, identity] : cohort) {
    if (identity.configuration == mine.configuration) continue;
    throw DataError(fmt::format("client {} was given another configuration", client));
  }
  if (const ByteView authority = state_view(state, kAuthority); !authority.empty()) {
    check_credentials({reinterpret_cast<const char*>(authority.data()), authority.size()}, cohort);
    return;
  }
  std::map<ClientId, PublicKey> known;
  const auto ids = state.find(kKnownIds);
  const std::int64_t count = ids == state.end() ? 0 : ids->second.numel();
  if (const std::byte* keys = state_bytes(state, kKnownKeys, 32 * count); keys != nullptr && count > 0) {
    const at::Tensor numbers = ids->second.to(at::kLong).contiguous();
    for (std::int64_t i = 0; i < count; ++i) {
      PublicKey key;
      std::copy_n(keys + 32 * i, 32, key.begin());
      known[static_cast<ClientId>(numbers.data_ptr<std::int64_t>()[i])] = key;
    }
  }
  bool grown = false;
  for (const auto& [client, identity] : cohort) {
    const auto [entry, is_new] = known.emplace(client, identity.key);
    if (entry->second != identity.key) {
      throw DataError(fmt::format("client {} has another identity than in earlier rounds", client));
    }
    grown = grown || is_new;
  }
  if (!grown) return;
  at::Tensor numbers = at::empty({static_cast<std::int64_t>(known.size())}, at::kLong);
  std::int64_t i = 0;
  for (const auto& entry : known) numbers.data_ptr<std::int64_t>()[i++] = entry.first;
  state[kKnownIds] = numbers;
  Bytes keys;
  for (const auto& entry : known) keys.insert(keys.end(), entry.second.begin(), entry.second.end());
  state[kKnownKeys] = tensor_of(keys);
}

Bytes write_identity(const PublicIdentity& identity) {
  Bytes bytes(identity.key.begin(), identity.key.end());
  bytes.insert(bytes.end(), identity.configuration.begin(), identity.configuration.end());
  bytes.insert(bytes.end(), identity.credential.begin(), identity.credential.end());
  return bytes;
}

PublicIdentity read_identity(ByteView bytes) {
  PublicIdentity identity;
  const std::size_t fixed = identity.key.size() + identity.configuration.size();
  if (bytes.size() < fixed || bytes.size() > fixed + kMostCredential) {
    throw DataError("its identity has another length");
  }
  const ByteView credential = bytes.subspan(fixed);
  std::copy_n(bytes.begin(), identity.key.size(), identity.key.begin());
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(identity.key.size()), identity.configuration.size(),
              identity.configuration.begin());
  identity.credential.assign(credential.begin(), credential.end());
  return identity;
}

at::Tensor identities_tensor(const PublicIdentities& cohort) {
  Bytes bytes;
  for (const auto& entry : cohort) {
    const Bytes identity = write_identity(entry.second);
    for (std::size_t i = 0; i < kLengthBytes; ++i) {
      bytes.push_back(static_cast<std::byte>(identity.size() >> (8 * i)));
    }
    bytes.insert(bytes.end(), identity.begin(), identity.end());
  }
  return tensor_of(bytes);
}

PublicIdentities read_identities(ByteView bytes, const std::vector<ClientId>& cohort) {
  PublicIdentities identities;
  for (const ClientId client : cohort) {
    std::size_t size = 0;
    if (bytes.size() < kLengthBytes) throw DataError("identities for another number of clients");
    for (std::size_t i = 0; i < kLengthBytes; ++i) size |= std::to_integer<std::size_t>(bytes[i]) << (8 * i);
    bytes = bytes.subspan(kLengthBytes);
    if (size > bytes.size()) throw DataError("identities for another number of clients");
    identities[client] = read_identity(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  if (!bytes.empty()) throw DataError("identities for another number of clients");
  return identities;
}

std::map<ClientId, PublicKey> keys_of(const PublicIdentities& identities) {
  std::map<ClientId, PublicKey> keys;
  for (const auto& [client, identity] : identities) keys[client] = identity.key;
  return keys;
}

}  // namespace chorus::inline secure_mean
