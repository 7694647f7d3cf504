#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "algorithm/secure/light_server.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "tests/sum_world.h"

namespace chorus::inline secure {
namespace {

/// Clients and a server of LightSecAgg, with inputs that are known.
class LightWorld {
 public:
  static constexpr std::size_t kLength = 11;

  LightWorld(std::size_t count, double corrupt, double dropout, unsigned bits = 32) {
    session.parameters = light_parameters(count, corrupt, dropout);
    session.parameters.ring_bits = bits;
    session.parameters.length = kLength;
    for (std::size_t i = 0; i < count; ++i) session.cohort.push_back(static_cast<ClientId>(5 * i + 1));
    for (const ClientId id : session.cohort) clients.emplace(id, LightClient(session, id, input_of(id)));
    server = std::make_unique<LightServer>(session);
  }

  RingVector input_of(ClientId id) const {
    RingVector input(session.parameters.ring_bits, kLength);
    RandomStream stream({.seed = 3, .purpose = "input", .client = id});
    for (std::size_t i = 0; i < kLength; ++i) {
      input.set(i, static_cast<std::uint64_t>(static_cast<std::int64_t>(stream.below(200'001)) - 100'000));
    }
    return input;
  }

  /// Nothing: abandoned. `alive(id, phase)`: it replies in that phase.
  std::optional<RingVector> run(const std::function<bool(ClientId, std::size_t)>& alive,
                                const std::function<void(ClientId, std::size_t, Bytes&)>& change = {}) {
    std::map<ClientId, Bytes> replies;
    for (auto& [id, client] : clients) {
      if (alive(id, 0)) replies[id] = client.advertise();
    }
    for (std::size_t phase = 0;; ++phase) {
      for (auto& [id, message] : replies) {
        if (change) change(id, phase, message);
        (void)server->receive(id, message).ok();
      }
      replies.clear();
      auto out = server->close();
      if (!out.ok()) return std::nullopt;
      if (server->done()) return server->sum();
      for (const auto& [id, message] : out.value()) {
        if (!alive(id, phase + 1)) continue;
        auto reply = clients.at(id).receive(*message);
        if (reply.ok()) replies[id] = reply.value();
      }
    }
  }

  bool is_sum_of_survivors(const RingVector& sum) const {
    RingVector expected(sum.bits(), kLength);
    for (const ClientId id : server->survivors()) expected.add(input_of(id));
    return sum == expected;
  }

  SumSession session;
  std::map<ClientId, LightClient> clients;
  std::unique_ptr<LightServer> server;
};

TEST(CodedMask, AnyUSharesGiveTheMaskInBothFields) {
  for (const unsigned bits : {32U, 64U}) {
    const MaskCode code{.clients = 9, .privacy = 3, .enough = 6, .length = 2000};
    const RingVector pieces = draw_mask(code, bits);
    EXPECT_TRUE(in_field(pieces));
    const std::vector<RingVector> shares = code_shares(code, pieces);
    for (const std::vector<std::size_t>& who :
         {std::vector<std::size_t>{0, 1, 2, 3, 4, 5}, {3, 4, 5, 6, 7, 8}, {8, 0, 6, 2, 4, 1}}) {
      std::vector<CodedShare> some;
      for (const std::size_t i : who) some.push_back({i, &shares[i]});
      EXPECT_EQ(decode_mask(code, some), pieces.part(0, code.length));
    }
  }
}

// Closed form: with U = 2, T = 1 a share is the line through (1, mask) and (2, random), at 3 + j.
TEST(CodedMask, IsTheLineForTwoPieces) {
  const MaskCode code{.clients = 3, .privacy = 1, .enough = 2, .length = 1};
  RingVector pieces(32, 2);
  pieces.set(0, 10);
  pieces.set(1, 7);
  const std::vector<RingVector> shares = code_shares(code, pieces);
  EXPECT_EQ(shares[0].at(0), 4U);
  EXPECT_EQ(shares[1].at(0), 1U);
  EXPECT_EQ(shares[2].at(0), prime_of(32) - 2);
}

// 1.6, mistake 9: what T clients hold is uniform, whatever the mask is; with zeros instead of random pieces it is not.
TEST(CodedMask, Mistake9TheSharesOfTClientsSayNothing) {
  const MaskCode code{.clients = 4, .privacy = 2, .enough = 3, .length = 1};
  constexpr int kDraws = 4000, kCells = 8;
  for (const bool padded : {true, false}) {
    std::vector<int> cells(kCells * kCells);
    for (int draw = 0; draw < kDraws; ++draw) {
      RingVector pieces = draw_mask(code, 32);
      pieces.set(0, 123);  // the same mask each time
      if (!padded) {
        pieces.set(1, 0);
        pieces.set(2, 0);
      }
      const std::vector<RingVector> shares = code_shares(code, pieces);
      const auto cell = [&](std::size_t i) { return static_cast<int>(shares[i].at(0) * kCells / prime_of(32)); };
      ++cells[static_cast<std::size_t>(cell(0) * kCells + cell(3))];
    }
    double chi = 0;
    const double expected = double{kDraws} / (kCells * kCells);
    for (const int count : cells) chi += (count - expected) * (count - expected) / expected;
    // 63 degrees of freedom: 63 +- 11.
    if (padded) {
      EXPECT_LT(chi, 63 + 6 * 11.3);
    } else {
      EXPECT_GT(chi, 1e4);
    }
  }
}

TEST(CodedMask, IntegersGoThroughTheField) {
  for (const unsigned bits : {32U, 64U}) {
    RingVector vector(bits, 4);
    const std::int64_t most = static_cast<std::int64_t>(prime_of(bits) / 2);
    const std::vector<std::int64_t> values{0, -1, most, -most};
    for (std::size_t i = 0; i < 4; ++i) vector.set(i, static_cast<std::uint64_t>(values[i]));
    const RingVector before = vector;
    to_field(vector);
    EXPECT_TRUE(in_field(vector));
    EXPECT_EQ(vector.at(1), prime_of(bits) - 1);
    from_field(vector);
    EXPECT_EQ(vector, before);
  }
}

// Every eleventh way to spread six clients over the phases; with CHORUS_SECURE_EXHAUSTIVE all 15,625.
TEST(LightSum, EverySpreadOfSixOverThePhasesIsExactOrAbandoned) {
  const bool all = std::getenv("CHORUS_SECURE_EXHAUSTIVE") != nullptr;
  int exact = 0, abandoned = 0;
  constexpr int kSpreads = 5 * 5 * 5 * 5 * 5 * 5;
  for (int spread = 0; spread < kSpreads; spread += all ? 1 : 11) {
    LightWorld world(6, 0.3, 0.34);
    std::map<ClientId, std::size_t> dies;
    int code = spread;
    for (const ClientId id : world.session.cohort) {
      dies[id] = static_cast<std::size_t>(code % 5);
      code /= 5;
    }
    const auto sum = world.run([&](ClientId id, std::size_t phase) { return dies[id] == 4 || phase < dies[id]; });
    if (sum) {
      EXPECT_TRUE(world.is_sum_of_survivors(*sum));
      ++exact;
    } else {
      ++abandoned;
    }
    int stay = 0;
    for (const auto& entry : dies) stay += entry.second == 4 ? 1 : 0;
    EXPECT_EQ(sum.has_value(), stay >= 4) << spread;
  }
  EXPECT_GT(exact, 10);
  EXPECT_GT(abandoned, 100);
  if (!all) return;
  EXPECT_EQ(exact, 1 + 6 * 4 + 15 * 16);  // nobody, one or two of six vanish, each in one of four phases
  EXPECT_EQ(exact + abandoned, kSpreads);
}

TEST(LightSum, RandomDropoutsOfFifty) {
  RandomStream stream({.seed = 13, .purpose = "dropouts"});
  std::size_t sums = 0;
  const std::size_t count = secure_cases(15);
  for (std::size_t i = 0; i < count; ++i) {
    const double rate = 0.12 * stream.uniform();
    LightWorld world(50, 0.2, 0.2);
    std::map<ClientId, std::size_t> dies;
    std::size_t stay = 0;
    for (const ClientId id : world.session.cohort) {
      std::size_t phase = 0;
      while (phase < 4 && stream.uniform() >= rate) ++phase;
      dies[id] = phase;
      stay += phase == 4 ? 1 : 0;
    }
    const auto sum = world.run([&](ClientId id, std::size_t phase) { return phase < dies[id]; });
    EXPECT_EQ(sum.has_value(), stay >= world.session.parameters.threshold) << i;
    EXPECT_TRUE(!sum || world.is_sum_of_survivors(*sum)) << i;
    sums += sum ? 1 : 0;
  }
  EXPECT_GT(sums, count / 5);
  EXPECT_LT(sums, count);
}

TEST(LightSum, IsExactInBothFieldsWithManyClients) {
  for (const unsigned bits : {32U, 64U}) {
    LightWorld world(30, 0.4, 0.3, bits);
    const auto sum = world.run([](ClientId id, std::size_t phase) { return id % 5 != 1 || phase < 2 || id > 40; });
    ASSERT_TRUE(sum.has_value());
    EXPECT_LT(world.server->survivors().size(), 30U);
    EXPECT_TRUE(world.is_sum_of_survivors(*sum));
  }
}

TEST(LightSum, ASecondListOfSurvivorsIsRefused) {
  LightWorld world(5, 0.2, 0.2);
  Bytes first, second;
  const auto stay = [](ClientId, std::size_t phase) { return phase < 3; };
  EXPECT_FALSE(world.run(stay).has_value());
  LightClient& client = world.clients.at(1);
  ASSERT_EQ(client.state(), LightClient::State::kMasked);
  // Two lists would give the mask of the client that only one has.
  Digest id{};
  const auto head = read_head(client.advertise());
  ASSERT_TRUE(head.has_value());
  id = head->tag;
  const auto all = client.receive(write_survivors({MessageType::kSurvivors, kEverybody, id}, {1, 6, 11, 16, 21}));
  ASSERT_TRUE(all.ok());
  EXPECT_FALSE(client.receive(write_survivors({MessageType::kSurvivors, kEverybody, id}, {1, 6, 11, 16})).ok());
  EXPECT_EQ(client.state(), LightClient::State::kAborted);
}

TEST(LightSum, ImpossibleSurvivorsAreRefused) {
  for (const std::vector<ClientId>& list :
       {std::vector<ClientId>{1, 6, 11}, {6, 11, 16, 21}, {1, 6, 11, 99}, std::vector<ClientId>{}}) {
    LightWorld world(5, 0.2, 0.2);
    EXPECT_FALSE(world.run([](ClientId, std::size_t phase) { return phase < 3; }).has_value());
    LightClient& client = world.clients.at(1);
    const Digest id = read_head(client.advertise())->tag;
    EXPECT_FALSE(client.receive(write_survivors({MessageType::kSurvivors, kEverybody, id}, list)).ok());
    EXPECT_EQ(client.state(), LightClient::State::kAborted);
  }
}

TEST(LightSum, DamagedMessagesNeverGiveAWrongSum) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    LightWorld world(6, 0.3, 0.34, seed % 2 == 0 ? 32 : 64);
    RandomStream stream({.seed = seed, .purpose = "damage"});
    const auto sum = world.run([](ClientId, std::size_t) { return true; },
                               [&](ClientId, std::size_t, Bytes& message) {
                                 if (stream.uniform() > 0.08) return;
                                 message[stream.below(message.size())] ^= static_cast<std::byte>(1 + stream.below(255));
                               });
    EXPECT_TRUE(!sum || world.is_sum_of_survivors(*sum)) << seed;
  }
}

TEST(LightSum, AnotherModelGivesNoSum) {
  LightWorld world(5, 0.2, 0.2);
  SumSession other = world.session;
  other.agreed[0] = std::byte{1};
  for (ClientId id : {1, 6}) world.clients.insert_or_assign(id, LightClient(other, id, world.input_of(id)));
  EXPECT_FALSE(world.run([](ClientId, std::size_t) { return true; }).has_value());
}

TEST(LightSum, ParametersThatCannotWorkAreRefused) {
  SumSession session;
  session.parameters = light_parameters(6, 0.5, 0.5);
  session.parameters.length = 3;
  session.cohort = {0, 1, 2, 3, 4, 5};
  EXPECT_THROW(LightServer{session}, ConfigError);
  session.parameters = light_parameters(6, 0.3, 0.3);
  session.parameters.length = 3;
  session.parameters.trust = Trust::kActive;
  EXPECT_THROW(LightServer{session}, ConfigError);
}

}  // namespace
}  // namespace chorus::inline secure
