#include "algorithm/secure_mean/identity.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "algorithm/secure_mean/sum_plan.h"
#include "core/base/error.h"

namespace chorus::inline secure_mean {
namespace {

constexpr const char* kOwnKeys = "secure.identity";
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

}  // namespace

std::shared_ptr<const SigningKeys> identity_in(ClientState& state) {
  auto keys = std::make_shared<SigningKeys>();
  constexpr std::int64_t kSecret = 64, kOpen = 32;
  if (const std::byte* bytes = state_bytes(state, kOwnKeys, kSecret + kOpen)) {
    std::copy_n(bytes, kSecret, keys->secret.data());
    std::copy_n(bytes + kSecret, kOpen, keys->open.begin());
    return keys;
  }
  *keys = new_signing_keys();
  at::Tensor stored = at::empty({kSecret + kOpen}, at::kByte);
  auto* const bytes = static_cast<std::byte*>(stored.data_ptr());
  std::copy_n(keys->secret.data(), kSecret, bytes);
  std::copy(keys->open.begin(), keys->open.end(), bytes + kSecret);
  state[kOwnKeys] = stored;
  return keys;
}

void meet(ClientState& state, ClientId self, const std::map<ClientId, PublicKey>& cohort) {
  const auto own = cohort.find(self);
  if (own == cohort.end() || own->second != identity_in(state)->open) {
    throw DataError("the server shows another identity of this client than its own");
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
  for (const auto& [client, key] : cohort) {
    const auto [entry, is_new] = known.emplace(client, key);
    if (entry->second != key) {
      throw DataError(fmt::format("client {} has another identity than in earlier rounds", client));
    }
    grown = grown || is_new;
  }
  if (!grown) return;
  at::Tensor numbers = at::empty({static_cast<std::int64_t>(known.size())}, at::kLong);
  std::int64_t i = 0;
  for (const auto& entry : known) numbers.data_ptr<std::int64_t>()[i++] = entry.first;
  state[kKnownIds] = numbers;
  state[kKnownKeys] = keys_tensor(known);
}

at::Tensor keys_tensor(const std::map<ClientId, PublicKey>& cohort) {
  Bytes bytes;
  for (const auto& entry : cohort) bytes.insert(bytes.end(), entry.second.begin(), entry.second.end());
  return tensor_of(bytes);
}

std::map<ClientId, PublicKey> read_keys_tensor(ByteView bytes, const std::vector<ClientId>& cohort) {
  if (bytes.size() != 32 * cohort.size()) throw DataError("identities for another number of clients");
  std::map<ClientId, PublicKey> keys;
  for (std::size_t i = 0; i < cohort.size(); ++i) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(32 * i), 32, keys[cohort[i]].begin());
  }
  return keys;
}

}  // namespace chorus::inline secure_mean
