// What a client leaves in memory that it gives back: every heap block that is freed during a whole secure sum is looked
// through for the client's secrets. And how much memory a server needs.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "algorithm/secure/pair_keys.h"
#include "tests/sum_world.h"

namespace chorus::inline secure {
namespace {

constexpr std::size_t kMostRecorded = std::size_t{4} << 20;
std::byte g_recorded[kMostRecorded];               // NOLINT: operator delete has no object to keep it in
std::size_t g_used = 0;                            // NOLINT
bool g_recording = false;                          // NOLINT
std::atomic<bool> g_counting = false;              // NOLINT
std::atomic<std::int64_t> g_live = 0, g_most = 0;  // NOLINT: bytes

void count(void* block, int sign) {
  if (!g_counting || block == nullptr) return;
  const std::int64_t live = g_live += sign * static_cast<std::int64_t>(malloc_usable_size(block));
  if (live > g_most) g_most = live;
}

void record(void* block) {
  if (!g_recording || block == nullptr) return;
  const std::size_t size = std::min(malloc_usable_size(block), kMostRecorded - g_used);
  std::memcpy(g_recorded + g_used, block, size);
  g_used += (size + 7) / 8 * 8;
}

}  // namespace
}  // namespace chorus::inline secure

void* operator new(std::size_t size) {
  void* block = std::malloc(size == 0 ? 1 : size);
  if (block == nullptr) throw std::bad_alloc();
  chorus::count(block, 1);
  return block;
}
void operator delete(void* block) noexcept {
  chorus::record(block);
  chorus::count(block, -1);
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

/// The most bytes that a server holds during a whole sum in which one client vanishes.
std::int64_t server_bytes(std::size_t clients, std::size_t length, unsigned threads) {
  SumSession session;
  session.parameters = complete_graph(clients, Trust::kSemiHonest);
  session.parameters.length = length;
  for (ClientId id = 0; id < clients; ++id) session.cohort.push_back(id);
  std::vector<std::unique_ptr<SumClient>> members;
  for (const ClientId id : session.cohort) {
    members.push_back(std::make_unique<SumClient>(session, id, nullptr, RingVector(32, length)));
  }
  g_live = g_most = 0;
  const auto counted = [](auto work) {
    g_counting = true;
    auto result = work();
    g_counting = false;
    return result;
  };
  const auto server = counted([&] { return std::make_unique<SumServer>(session, threads); });
  for (const ClientId id : session.cohort) {
    const Bytes message = members[id]->advertise();
    EXPECT_TRUE(counted([&] { return server->receive(id, message).ok(); }));
  }
  for (int phase = 1; !server->done(); ++phase) {
    const auto out = counted([&] { return server->close().value_or_throw(); });
    for (const auto& [id, message] : out) {
      if (phase >= 2 && id == 0) continue;
      const Bytes reply = members[id]->receive(*message).value_or_throw();
      EXPECT_TRUE(counted([&, from = id] { return server->receive(from, reply).ok(); }));
    }
  }
  EXPECT_EQ(server->sum().at(0), 0U);
  return g_most;
}

// SECURITY.md 3b: O(d x threads), not O(N x d).
TEST(ServerMemory, IsOneVectorPerThreadHoweverManyClients) {
  constexpr std::int64_t kLength = 250'000, kVector = 4 * kLength, kRest = kVector / 2;
  for (const unsigned threads : {1U, 3U}) {
    for (const std::size_t clients : {5U, 20U}) {
      const std::int64_t most = server_bytes(clients, kLength, threads);
      EXPECT_GE(most, kVector * threads);
      EXPECT_LE(most, kVector * threads + kRest) << clients << " clients, " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace chorus::inline secure
