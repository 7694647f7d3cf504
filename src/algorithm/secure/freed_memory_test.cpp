// What a client leaves in memory that it gives back: every heap block that is freed during a whole secure sum is looked
// through for the client's secrets.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "algorithm/secure/pair_keys.h"
#include "tests/sum_world.h"

namespace chorus::inline secure {
namespace {

constexpr std::size_t kMostRecorded = std::size_t{4} << 20;
std::byte g_recorded[kMostRecorded];  // NOLINT: operator delete has no object to keep it in
std::size_t g_used = 0;               // NOLINT
bool g_recording = false;             // NOLINT

void record(void* block) {
  if (!g_recording || block == nullptr) return;
  const std::size_t size = std::min(malloc_usable_size(block), kMostRecorded - g_used);
  std::memcpy(g_recorded + g_used, block, size);
  g_used += (size + 7) / 8 * 8;
}

}  // namespace
}  // namespace chorus::inline secure

void* operator new(std::size_t size) {
  if (void* block = std::malloc(size == 0 ? 1 : size)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept {
  chorus::record(block);
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

namespace chorus::inline secure {
namespace {

/// Names the secret of a client at an address; empty: it is none.
std::string secret_at(const std::byte* address, const Advertisement& keys, const Digest& context) {
  Key key;
  std::memcpy(key.data(), address, Key::size());
  if (public_key_of(key) == keys.sealing) return "the sealing key";
  if (public_key_of(key) == keys.masking) return "the masking key";
  if (public_key_of(masking_secret(key)) == keys.masking) return "the seed of the masking key";
  if (commitment_to(key, context, keys.client) == keys.commitment) return "the seed of the own mask";
  return "";
}

std::set<std::string> secrets_in_freed_memory(const Advertisement& keys, const Digest& context) {
  std::set<std::string> found;
  const std::byte kZeros[32] = {};
  for (std::size_t at = 0; at + Key::size() <= g_used; at += 8) {
    if (std::memcmp(g_recorded + at, kZeros, sizeof kZeros) == 0) continue;
    if (std::string name = secret_at(g_recorded + at, keys, context); !name.empty()) found.insert(std::move(name));
  }
  return found;
}

// 1.6, mistake 13. Whether a client ends well, is lied to, or is dropped in the middle.
TEST(FreedMemory, Mistake13ClientsLeaveNoSecretBehind) {
  for (const std::size_t phases : {2U, 9U}) {
    g_used = 0;
    g_recording = true;
    SumWorld world(4, complete_graph(4, Trust::kActive));
    const ClientId id = world.id(1);
    const Advertisement keys = *read_advertisement(world.client(id).advertise());
    const Digest context = world.session.context();
    world.advertise(always);
    for (std::size_t phase = 1; phase <= std::min(phases, world.phases()); ++phase) {
      if (!world.step(phase, always)) break;
    }
    world.forget(id);
    g_recording = false;
    ASSERT_LT(g_used, kMostRecorded);
    EXPECT_GT(g_used, 0U);
    EXPECT_TRUE(secrets_in_freed_memory(keys, context).empty()) << phases << " phases";
  }
}

// A copy that is not wiped is found.
TEST(FreedMemory, ASecretThatWasLeftBehindIsFound) {
  const AgreementKeys keys = new_agreement_keys();
  g_used = 0;
  g_recording = true;
  { const Bytes copy(keys.secret.view().begin(), keys.secret.view().end()); }
  g_recording = false;
  EXPECT_TRUE(secrets_in_freed_memory({1, keys.open, {}, {}, {}}, {}).contains("the sealing key"));
}

}  // namespace
}  // namespace chorus::inline secure
