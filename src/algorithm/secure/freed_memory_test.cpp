// What a client leaves in memory that it gives back: every heap block that is freed during a whole secure sum is looked
// through for the client's secrets. And how much memory a server needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sodium.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>

#include "algorithm/secure/credential.h"
#include "algorithm/secure/light_server.h"
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

/// Everything that libsodium drew while it was watched. Every secret follows from it, so a test can look for secrets
/// that never leave a client.
class WatchedRandomness {
 public:
  WatchedRandomness() {
    g_drawn = 0;
    new_signing_keys();  // starts the library, which would choose its own source
    randombytes_set_implementation(&kWatched);
  }
  ~WatchedRandomness() { randombytes_set_implementation(&randombytes_sysrandom_implementation); }

  /// Keys of 32 bytes that were drawn at once, and seeds of four elements of Shamir's field that were drawn one by one.
  static std::vector<Key> keys_and_seeds() {
    std::vector<Key> all;
    for (std::size_t at = 0; at + Key::size() <= g_drawn; at += 8) {
      for (const bool seed : {false, true}) {
        Key& key = all.emplace_back();
        std::memcpy(key.data(), g_randomness + at, Key::size());
        for (std::size_t piece = 7; seed && piece < Key::size(); piece += 8) key.data()[piece] &= std::byte{0x1F};
      }
    }
    return all;
  }

 private:
  static constexpr std::size_t kMostDrawn = std::size_t{1} << 16;
  static inline std::byte g_randomness[kMostDrawn];
  static inline std::size_t g_drawn = 0;

  static void draw(void* const into, const std::size_t size) {
    randombytes_sysrandom_implementation.buf(into, size);
    if (g_drawn + size > kMostDrawn) std::abort();
    std::memcpy(g_randomness + g_drawn, into, size);
    g_drawn += size;
  }
  static inline randombytes_implementation kWatched = {[] { return "watched"; },
                                                       [] {
                                                         std::uint32_t word = 0;
                                                         draw(&word, sizeof word);
                                                         return word;
                                                       },
                                                       nullptr,
                                                       nullptr,
                                                       draw,
                                                       nullptr};
};

/// Secrets by name, of which a few bytes are looked for.
class Secrets {
 public:
  void add(const std::string& name, ByteView bytes) {
    if (bytes.size() >= kSeen) all_.push_back({name, Bytes(bytes.begin(), bytes.end())});
  }
  void add(const std::string& name, const Key& key) { add(name, key.view()); }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& secret : all_) names.insert(secret.first);
    return names;
  }
  const std::vector<std::pair<std::string, Bytes>>& all() const { return all_; }

  /// Those of which any 16 bytes in a row (from a multiple of four on) are in memory that was freed.
  std::set<std::string> in_freed_memory() const {
    std::unordered_map<std::string_view, const std::string*> parts;
    for (const auto& [name, bytes] : all_) {
      for (std::size_t at = 0; at + kSeen <= bytes.size(); at += 4) parts.emplace(text(bytes.data() + at), &name);
    }
    std::set<std::string> found;
    for (std::size_t at = 0; at + kSeen <= g_used; ++at) {
      if (const auto part = parts.find(text(g_recorded + at)); part != parts.end()) found.insert(*part->second);
    }
    return found;
  }

 private:
  static constexpr std::size_t kSeen = 16;
  static std::string_view text(const std::byte* at) { return {reinterpret_cast<const char*>(at), kSeen}; }

  std::vector<std::pair<std::string, Bytes>> all_;
};

/// The secret keys of a client, found by what it has shown of them.
struct OwnKeys {
  Key sealing, own_seed, masking_seed;

  OwnKeys(const Advertisement& shown, const Digest& context) {
    for (const Key& key : WatchedRandomness::keys_and_seeds()) {
      const auto take = [&](Key& into) { std::memcpy(into.data(), key.data(), Key::size()); };
      if (public_key_of(key) == shown.sealing) take(sealing);
      if (commitment_to(key, context, shown.client) == shown.commitment) take(own_seed);
      if (public_key_of(masking_secret(key)) == shown.masking) take(masking_seed);
    }
  }
};

/// What a client of SecAgg must wipe: keys, results of key agreements, keys of masks, and shares that are not revealed.
/// `revealed`: the shares of own masks have been, because everybody stayed.
Secrets secrets_of(SumWorld& world, ClientId self, bool revealed) {
  const Digest context = world.session.context();
  const std::vector<Advertisement> keys = *read_keys(world.sent[1].at(self));
  const Digest session = session_id(context, keys);
  const OwnKeys mine(*entry_of(keys, self), context);
  const Key masking = masking_secret(mine.masking_seed);
  Secrets secrets;
  secrets.add("the sealing key", mine.sealing);
  secrets.add("the masking key", masking);
  secrets.add("the seed of the masking key", mine.masking_seed);
  if (!revealed) secrets.add("the seed of the own mask", mine.own_seed);
  secrets.add("the key of the own mask", own_mask_key(mine.own_seed, session, self));
  const auto add_shares = [&](const Key& agreed, ClientId from, ClientId to) {
    const Key key = sealing_key(agreed, session, from, to);
    secrets.add("a key that seals shares", key);
    const std::vector<SealedShare> sealed = *read_shares(world.sent[2].at(to));
    for (const SealedShare& entry : sealed) {
      if (entry.client != from) continue;
      const auto shares = unseal(key, sealing_bound(session, from, to), entry.sealed);
      if (!shares) std::abort();
      if (!revealed) secrets.add("a share of an own mask", shares->view().first(Share::size()));
      secrets.add("a share of a masking key", shares->view().subspan(Share::size()));
    }
  };
  for (const Advertisement& other : keys) {
    if (other.client == self) continue;
    const Key sealing = *agree(mine.sealing, other.sealing), pair = *agree(masking, other.masking);
    secrets.add("an agreement about shares", sealing);
    secrets.add("an agreement about a mask", pair);
    secrets.add("the key of a pair's mask", pair_mask_key(pair, session, self, other.client));
    add_shares(sealing, self, other.client);
    add_shares(sealing, other.client, self);
  }
  return secrets;
}

// 1.6, mistake 13. Whether a client ends well, is lied to, or is dropped in the middle.
TEST(FreedMemory, Mistake13ClientsLeaveNoSecretBehind) {
  for (const std::size_t phases : {2U, 9U}) {
    const WatchedRandomness randomness;
    g_used = 0;
    g_recording = true;
    SumWorld world(4, complete_graph(4, Trust::kActive));
    const ClientId id = world.id(1);
    world.advertise(always);
    for (std::size_t phase = 1; phase <= std::min(phases, world.phases()); ++phase) {
      if (!world.step(phase, always)) break;
    }
    world.forget(id);
    g_recording = false;
    ASSERT_LT(g_used, kMostRecorded);
    EXPECT_GT(g_used, 0U);
    const Secrets secrets = secrets_of(world, id, phases > 2);
    EXPECT_EQ(secrets.names().size(), phases > 2 ? 9U : 11U);
    EXPECT_THAT(secrets.in_freed_memory(), testing::IsEmpty()) << phases << " phases";
  }
}

/// Clients and a server of LightSecAgg, and what the server sends.
struct FourLightClients {
  FourLightClients() {
    session.parameters = light_parameters(4, 0.25, 0.25);
    session.parameters.length = 40;
    session.cohort = {2, 3, 5, 7};
    RingVector input(32, session.parameters.length);  // not 0: a masked 0 is the mask
    for (std::size_t i = 0; i < input.size(); ++i) input.set(i, 7919 * i + 1);
    for (const ClientId id : session.cohort) clients[id] = std::make_unique<LightClient>(session, id, input);
  }
  void run(std::size_t phases) {
    LightServer server(session);
    for (const auto& [id, client] : clients) (void)server.receive(id, client->advertise()).ok();
    for (std::size_t phase = 1; phase <= phases && !server.done(); ++phase) {
      const auto out = server.close().value_or_throw();
      for (const auto& [id, message] : out) {
        sent[phase][id] = *message;
        (void)server.receive(id, clients.at(id)->receive(*message).value_or_throw()).ok();
      }
    }
    finished = server.done();
  }
  SumSession session;
  std::map<ClientId, std::unique_ptr<LightClient>> clients;
  std::map<std::size_t, std::map<ClientId, Bytes>> sent;
  bool finished = false;
};

/// The same of LightSecAgg: also the mask with its random pieces, and coded shares.
Secrets secrets_of(FourLightClients& world, ClientId self) {
  const MaskCode code = code_of(world.session.parameters);
  const Digest context = light_context(world.session);
  const std::vector<Advertisement> keys = *read_keys(world.sent[1].at(self));
  const Digest session = session_id(context, keys);
  const OwnKeys mine(*entry_of(keys, self), context);
  Secrets secrets;
  secrets.add("the sealing key", mine.sealing);
  Bytes coded;  // this client's share for the last of the others
  std::size_t place = 0, last = 0;
  for (const Advertisement& other : keys) {
    ++place;
    if (other.client == self) continue;
    const Key agreed = *agree(mine.sealing, other.sealing);
    secrets.add("an agreement about shares", agreed);
    for (const auto& [from, to] : {std::pair(self, other.client), std::pair(other.client, self)}) {
      const Key key = sealing_key(agreed, session, from, to);
      secrets.add("a key that seals shares", key);
      const std::vector<SealedShare> sealed = *read_coded(world.sent[2].at(to), code.piece() * 4);
      for (const SealedShare& entry : sealed) {
        if (entry.client != from) continue;
        const auto share = unseal(key, sealing_bound(session, from, to), entry.sealed);
        if (!share) std::abort();
        secrets.add("a coded share", share->view());
        if (from == self) coded.assign(share->view().begin(), share->view().end());
        if (from == self) last = place - 1;
      }
    }
  }
  // The mask is the one whose code gives that share.
  for (const Key& key : WatchedRandomness::keys_and_seeds()) {
    RingVector pieces(32, code.enough * code.piece());
    pieces.add_mask(key, false);
    pieces.words([](auto words) {
      for (auto& word : words) word &= static_cast<std::decay_t<decltype(word)>>(prime_of(32));
    });
    const std::vector<RingVector> shares = code_shares(code, pieces);
    if (!std::equal(coded.begin(), coded.end(), shares.at(last).bytes().begin())) continue;
    secrets.add("the seed of the mask", key);
    secrets.add("the mask", pieces.bytes());
    secrets.add("a coded share", shares.at(static_cast<std::size_t>(entry_of(keys, self) - keys.begin())).bytes());
  }
  return secrets;
}

TEST(FreedMemory, ClientsOfLightSecAggLeaveNoSecretBehind) {
  for (const std::size_t phases : {2U, 9U}) {
    const WatchedRandomness randomness;
    g_used = 0;
    g_recording = true;
    FourLightClients world;
    world.run(phases);
    world.clients.erase(3);
    g_recording = false;
    EXPECT_EQ(world.finished, phases > 2);
    ASSERT_LT(g_used, kMostRecorded);
    const Secrets secrets = secrets_of(world, 3);
    EXPECT_EQ(secrets.names().size(), 6U) << testing::PrintToString(secrets.names());
    EXPECT_THAT(secrets.in_freed_memory(), testing::IsEmpty()) << phases << " phases";
  }
}

TEST(FreedMemory, ThePrivateKeyOfACertificateIsWiped) {
  Secrets secrets;
  g_used = 0;
  {
    CertifiedKey own{"", std::string(240, ' ')};
    fill_random(std::as_writable_bytes(std::span(own.key)));
    secrets.add("a private key", std::as_bytes(std::span(own.key)));
    g_recording = true;
    (void)signing_keys_of(own);
  }
  g_recording = false;
  EXPECT_GE(g_used, 240U);
  EXPECT_THAT(secrets.in_freed_memory(), testing::IsEmpty());
}

// Copies that are not wiped are found, wherever in a block they are.
TEST(FreedMemory, SecretsThatWereLeftBehindAreFound) {
  const WatchedRandomness randomness;
  SumWorld world(4, complete_graph(4, Trust::kActive));
  world.run(always);
  const Secrets secrets = secrets_of(world, world.id(1), false);
  EXPECT_EQ(secrets.names().size(), 11U);
  g_used = 0;
  g_recording = true;
  for (const auto& secret : secrets.all()) {
    Bytes copy(3);
    copy.insert(copy.end(), secret.second.begin(), secret.second.end());
  }
  g_recording = false;
  EXPECT_EQ(secrets.in_freed_memory(), secrets.names());
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
