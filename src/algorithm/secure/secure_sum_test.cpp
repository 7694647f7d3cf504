// SecAgg and SecAgg+ under dropouts: SECURITY.md 4c, cases 1 to 4 and 14, and every dropout set of six clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"
#include "tests/sum_world.h"
#include "tests/support.h"

namespace chorus::inline secure {
namespace {

using testing::HasSubstr;

std::vector<SumParameters> kinds_for(std::size_t clients) {
  return {complete_graph(clients, Trust::kSemiHonest), complete_graph(clients, Trust::kActive),
          ring_of_four(Trust::kSemiHonest), ring_of_four(Trust::kActive)};
}

/// Runs with `gone[id]`: the first phase in which a client does not reply. Either the sum is that of the survivors, or
/// nobody learns anything; in no case are both kinds of shares of anyone seen. Says whether there was a sum.
bool run_and_check(std::size_t clients, const SumParameters& parameters, const std::vector<std::size_t>& gone) {
  SumWorld world(clients, parameters);
  std::map<ClientId, std::size_t> until;
  for (std::size_t i = 0; i < clients; ++i) until[world.id(i)] = gone[i];
  const auto sum = world.run([&](ClientId id, std::size_t phase) { return phase < until[id]; });
  EXPECT_TRUE(world.transcript.exposed().empty());
  if (!sum) {
    EXPECT_EQ(world.server->phase(), SumServer::Phase::kAborted);
    EXPECT_THROW(static_cast<void>(world.server->sum()), InternalError);
    return false;
  }
  EXPECT_TRUE(*sum == world.plain_sum(world.server->survivors()));
  std::vector<ClientId> uploaded;
  for (const ClientId id : world.session.cohort) {
    if (until[id] > 2) uploaded.push_back(id);
  }
  EXPECT_EQ(world.server->survivors(), uploaded);
  EXPECT_GE(uploaded.size(), parameters.least_cohort);
  return true;
}

TEST(SecureSum, EverybodyStaysAndTheSumIsExact) {
  for (const unsigned bits : {32U, 64U}) {
    for (SumParameters parameters : kinds_for(6)) {
      parameters.ring_bits = bits;
      EXPECT_TRUE(run_and_check(6, parameters, std::vector<std::size_t>(6, 99)));
    }
  }
}

// Every set of six clients vanishes in every phase.
TEST(SecureSum, ExhaustiveEverySetOfSixVanishesInEveryPhase) {
  int sums = 0, aborts = 0;
  for (const SumParameters& parameters : kinds_for(6)) {
    const std::size_t phases = parameters.trust == Trust::kActive ? 5 : 4;
    for (std::size_t phase = 0; phase < phases; ++phase) {
      for (unsigned set = 0; set < 64; ++set) {
        std::vector<std::size_t> gone(6, 99);
        for (std::size_t i = 0; i < 6; ++i) {
          if ((set >> i & 1U) == 1) gone[i] = phase;
        }
        ++(run_and_check(6, parameters, gone) ? sums : aborts);
      }
    }
  }
  EXPECT_EQ(sums, 216);
  EXPECT_EQ(aborts, 936);
}

// Clients vanish in different phases: every way to spread six clients over the phases, each for one draw of who. With
// CHORUS_SECURE_EXHAUSTIVE also for every choice of who: 15,625 cases against a semi-honest server, 46,656 against an
// active one, for each graph.
TEST(SecureSum, ExhaustiveEverySpreadOfSixOverThePhases) {
  const bool everybody = std::getenv("CHORUS_SECURE_EXHAUSTIVE") != nullptr;
  RandomStream stream({.seed = 11, .purpose = "spread"});
  std::size_t sums = 0, aborts = 0;
  for (const SumParameters& parameters :
       everybody ? kinds_for(6)
                 : std::vector<SumParameters>{complete_graph(6, Trust::kSemiHonest), ring_of_four(Trust::kActive)}) {
    const std::size_t phases = parameters.trust == Trust::kActive ? 5 : 4;
    std::vector<std::size_t> gone(6, 0);
    const std::function<void(std::size_t, std::size_t)> spread = [&](std::size_t client, std::size_t least) {
      if (client == 6) {
        std::vector<std::size_t> drawn = gone;
        if (!everybody) stream.shuffle(std::span(drawn));
        ++(run_and_check(6, parameters, drawn) ? sums : aborts);
        return;
      }
      for (std::size_t phase = everybody ? 0 : least; phase <= phases; ++phase) {
        gone[client] = phase;
        spread(client + 1, phase);
      }
    };
    spread(0, 0);
  }
  EXPECT_GT(sums, 0U);
  EXPECT_GT(aborts, sums);
  if (everybody) {
    EXPECT_EQ(sums + aborts, 2 * (15'625U + 46'656U));
  }
}

void drop_of_fifty(Trust trust) {
  RandomStream stream({.seed = 12, .purpose = "dropouts"});
  SumParameters parameters;
  parameters.trust = trust;
  parameters.neighbours = 10;
  parameters.threshold = 6;
  parameters.colluding = 1;
  parameters.least_cohort = 10;
  std::size_t sums = 0;
  const std::size_t phases = trust == Trust::kActive ? 5 : 4, count = secure_cases(15);
  for (std::size_t i = 0; i < count; ++i) {
    const double rate = 0.12 * stream.uniform();
    std::vector<std::size_t> gone(50, 99);
    for (std::size_t& phase : gone) {
      for (std::size_t p = 0; p < phases && phase == 99; ++p) {
        if (stream.uniform() < rate) phase = p;
      }
    }
    sums += run_and_check(50, parameters, gone) ? 1 : 0;
  }
  EXPECT_GT(sums, count / 5);
  EXPECT_LT(sums, count);
}

TEST(SecureSum, RandomDropoutsOfFifty) { drop_of_fifty(Trust::kSemiHonest); }
TEST(SecureSum, RandomDropoutsOfFiftyUnderAnActiveServer) { drop_of_fifty(Trust::kActive); }

// 4c, case 1.
TEST(SecureSum, Case1AClientDiesBeforeItsKeys) {
  SumWorld world(6, complete_graph(6, Trust::kSemiHonest));
  const auto sum = world.run([&](ClientId id, std::size_t) { return id != world.id(2); });
  ASSERT_TRUE(sum);
  EXPECT_EQ(world.server->survivors().size(), 5U);
}

// 4c, case 2.
TEST(SecureSum, Case2AClientDiesBetweenSharesAndInput) {
  SumWorld world(6, complete_graph(6, Trust::kActive));
  const ClientId dead = world.id(4);
  const auto sum = world.run([&](ClientId id, std::size_t phase) { return id != dead || phase < 2; });
  ASSERT_TRUE(sum);
  EXPECT_TRUE(*sum == world.plain_sum(world.server->survivors()));
  EXPECT_EQ(world.transcript.shares(dead, RevealedShare::Kind::kMaskingKey), 5U);
  EXPECT_EQ(world.transcript.shares(dead, RevealedShare::Kind::kOwnMask), 0U);
}

// 4c, case 3, and 1.6, mistake 14.
TEST(SecureSum, Case3Mistake14AClientDiesBetweenInputAndUnmasking) {
  SumWorld world(6, complete_graph(6, Trust::kSemiHonest));
  const ClientId dead = world.id(0);
  const auto sum = world.run([&](ClientId id, std::size_t phase) { return id != dead || phase < 3; });
  ASSERT_TRUE(sum);
  EXPECT_THAT(world.server->survivors(), testing::Contains(dead));
  EXPECT_TRUE(*sum == world.plain_sum(world.session.cohort));
  EXPECT_EQ(world.transcript.shares(dead, RevealedShare::Kind::kMaskingKey), 0U);
  EXPECT_EQ(world.transcript.shares(dead, RevealedShare::Kind::kOwnMask), 5U);
}

// 4c, case 4: one reply fewer than the threshold.
TEST(SecureSum, Case4TooFewAtUnmaskingAbortsWithoutAResult) {
  const SumParameters parameters = complete_graph(6, Trust::kSemiHonest);
  for (const std::size_t replies : {parameters.threshold + 1, parameters.threshold, parameters.threshold - 1}) {
    SumWorld world(6, parameters);
    const auto sum = world.run([&](ClientId id, std::size_t phase) { return phase < 3 || id < world.id(replies); });
    // A client's own shares are with others, so t + 1 replies are enough for everybody.
    EXPECT_EQ(sum.has_value(), replies > parameters.threshold) << replies;
    if (!sum) {
      EXPECT_EQ(world.server->phase(), SumServer::Phase::kAborted);
      EXPECT_FALSE(world.server->close().ok());
    }
  }
}

// 1.6, mistake 3.
TEST(SecureSum, Mistake3ThresholdsThatAreTooLowAreRefused) {
  SumParameters parameters = complete_graph(9, Trust::kSemiHonest);
  parameters.length = 1;
  EXPECT_EQ(parameters.mistake(), "");
  EXPECT_GT(2 * parameters.threshold, parameters.neighbours);
  parameters.threshold = 4;
  EXPECT_THAT(parameters.mistake(), HasSubstr("may collude"));
  parameters = complete_graph(9, Trust::kActive);
  parameters.length = 1;
  EXPECT_EQ(parameters.mistake(), "");
  parameters.threshold = 5;
  EXPECT_THAT(parameters.mistake(), HasSubstr("too low for an active server"));
  for (std::size_t n = 4; n < 200; ++n) EXPECT_GE(3 * complete_graph(n, Trust::kActive).threshold, 2 * n - 2) << n;
  // A client refuses them itself, whatever the server proposes.
  SumWorld world(9, complete_graph(9, Trust::kActive));
  SumSession weak = world.session;
  weak.parameters.threshold = 3;
  EXPECT_THROW(world.make_client(world.id(0), weak), ConfigError);
  EXPECT_THROW(SumServer{weak}, ConfigError);
}

// 1.6, mistake 15.
TEST(SecureSum, Mistake15ASumOverTooFewIsNeverRevealed) {
  SumParameters parameters = ring_of_four(Trust::kSemiHonest);
  parameters.least_cohort = 5;
  SumWorld world(6, parameters);
  EXPECT_FALSE(world.run([&](ClientId id, std::size_t phase) { return phase < 2 || id < world.id(4); }));
  parameters.least_cohort = 1;
  EXPECT_THAT(parameters.mistake(), HasSubstr("nothing to sum"));
  parameters.length = 1;
  EXPECT_THAT(parameters.mistake(), HasSubstr("least_cohort"));
}

// Decision 6 (Pasquini et al. 2022): clients that were given another model have masks that do not cancel.
TEST(SecureSum, AnotherModelGivesNoSum) {
  SumWorld world(6, complete_graph(6, Trust::kActive));
  SumSession other = world.session;
  other.agreed.fill(std::byte{7});
  EXPECT_NE(other.context(), world.session.context());
  const auto misled = world.make_client(world.id(0), other);
  EXPECT_FALSE(world.deliver(world.id(0), misled->advertise()));
}

TEST(SecureSum, ThreadsDoNotChangeTheSum) {
  SumParameters parameters = complete_graph(8, Trust::kSemiHonest);
  SumWorld world(8, parameters);
  world.server = std::make_unique<SumServer>(world.session, 3);
  const auto sum = world.run([&](ClientId id, std::size_t phase) { return id != world.id(1) || phase < 2; });
  ASSERT_TRUE(sum);
  EXPECT_TRUE(*sum == world.plain_sum(world.server->survivors()));
}

// SECURITY.md 3: at most d x bytes + 130 k + 2 KB go up.
TEST(SecureSum, UploadsAreSmall) {
  for (const std::size_t clients : {12U, 30U}) {
    SumWorld world(clients, complete_graph(clients, Trust::kActive));
    std::size_t bytes = world.client(world.id(0)).advertise().size();
    world.advertise(always);
    for (std::size_t phase = 1; phase <= 4; ++phase) {
      ASSERT_TRUE(world.step(phase, always));
      bytes += world.client(world.id(0)).receive(world.sent[phase][world.id(0)]).value().size();
    }
    EXPECT_LE(bytes, SumWorld::kLength * 4 + 130 * (clients - 1) + 2048);
  }
}

}  // namespace
}  // namespace chorus::inline secure
