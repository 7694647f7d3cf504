#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "algorithm/attacks/alie.h"
#include "algorithm/attacks/attacked_federation.h"
#include "core/config/config.h"
#include "tests/row_federation.h"

namespace chorus::inline attacks {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

constexpr std::uint64_t kSeed = 5;
using Sent = std::map<ClientId, std::vector<double>>;

const std::vector<std::vector<double>> kHonest = {{1, 2}, {3, -1}, {0, 4}, {2, 2}, {-1, 1}, {1, 0}, {2, 5}, {4, 3}};

struct Round {
  Sent sent;
  std::set<ClientId> attackers;
  std::map<std::string, double> numbers;
};

Round attack(const std::string& yaml, bool reversed = false, std::uint64_t round = 1, double share = 0.25) {
  AttacksConfig config =
      ConfigDocument::parse("attack: " + yaml, "test", {"share=" + std::to_string(share)}).load<AttacksConfig>();
  RowFederation rows(kHonest);
  rows.reversed = reversed;
  AttackedFederation federation({rows, config, kSeed});
  Request request{.procedure = "train", .round = round};
  const std::vector<ClientId> cohort = {0, 1, 2, 3, 4, 5, 6, 7};
  Round result;
  std::set<std::size_t> slots;
  for (Reply& reply : federation.ask(cohort, request)) {
    EXPECT_EQ(cohort[reply.slot], reply.client);
    EXPECT_TRUE(slots.insert(reply.slot).second);
    EXPECT_TRUE(reply.finite.empty());
    const at::Tensor update = reply.body.tensor("update").to(at::kDouble);
    result.sent[reply.client] = {update.data_ptr<double>(), update.data_ptr<double>() + update.numel()};
  }
  EXPECT_EQ(slots.size(), cohort.size());
  result.attackers = federation.attackers();
  result.numbers = federation.numbers();
  for (const ClientId client : cohort) {
    if (!result.attackers.contains(client)) {
      EXPECT_EQ(result.sent[client], kHonest[client]);
    }
  }
  return result;
}

TEST(Attacks, TheShareOfClientsIsDrawnFromTheSeed) {
  std::vector<ClientId> clients(20);
  std::iota(clients.begin(), clients.end(), 0U);
  const auto draw = [&](double share, std::uint64_t seed, std::vector<std::int64_t> spared = {}) {
    AttacksConfig config;
    config.share = share;
    config.spared = std::move(spared);
    return draw_attackers(clients, config, seed);
  };
  EXPECT_EQ(draw(0.25, 1).size(), 5U);
  EXPECT_EQ(draw(0.29, 1).size(), 5U);
  EXPECT_EQ(draw(0.25, 1), draw(0.25, 1));
  EXPECT_NE(draw(0.25, 1), draw(0.25, 2));
  const ClientId first = *draw(0.25, 1).begin();
  EXPECT_FALSE(draw(0.25, 1, {first}).contains(first));
  EXPECT_EQ(draw(0.25, 1, {first}).size(), 5U);
  EXPECT_EQ(attack("sign_flip").numbers.at("attackers"), 2);
}

TEST(Attacks, SettingsWithoutAnAttackerAreRefused) {
  std::vector<ClientId> clients(10);
  std::iota(clients.begin(), clients.end(), 0U);
  const auto mistake = [&](double share, std::vector<std::int64_t> spared) {
    AttacksConfig config;
    config.share = share;
    config.spared = std::move(spared);
    return attackers_mistake(clients, config);
  };
  EXPECT_EQ(mistake(0.1, {0, 9}), "");
  EXPECT_EQ(mistake(0.05, {}), "attacks.share: 0.05 of 10 clients is less than one; set it to at least 0.1");
  EXPECT_EQ(mistake(0.2, {99}), "attacks.spared: there is no client 99 among 10; leave it out");
  EXPECT_THAT(mistake(0.2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), testing::HasSubstr("everybody is spared"));
  EXPECT_THROW(attack("sign_flip", false, 1, 0.01), ConfigError);
}

TEST(Attacks, SignFlipAndScalingMultiply) {
  for (const auto& [yaml, factor] : {std::pair("sign_flip", -1.0),
                                     {"{name: sign_flip, factor: 4}", -4.0},
                                     {"scaling", 100.0},
                                     {"{name: scaling, factor: 0.5}", 0.5}}) {
    const Round round = attack(yaml);
    for (const ClientId client : round.attackers) {
      EXPECT_THAT(round.sent.at(client), ElementsAre(factor * kHonest[client][0], factor * kHonest[client][1]));
    }
  }
}

TEST(Attacks, GaussianHasItsDeviationAndAFreeRiderSendsNothing) {
  const Round random = attack("{name: gaussian, deviation: 3}");
  EXPECT_EQ(random.sent, attack("{name: gaussian, deviation: 3}", true).sent);
  EXPECT_NE(random.sent, attack("{name: gaussian, deviation: 3}", false, 2).sent);
  const std::vector<ClientId> two(random.attackers.begin(), random.attackers.end());
  EXPECT_NE(random.sent.at(two[0]), random.sent.at(two[1]));
  for (const ClientId client : two) EXPECT_THAT(attack("free_rider").sent.at(client), ElementsAre(0, 0));

  const auto noise = Attacks::make("gaussian");
  const std::vector<at::Tensor> own = {at::zeros({20000})};
  const at::Tensor sent = noise->corrupt({.own = own, .others = {}, .key = {.seed = 1, .purpose = "x"}}).at(0);
  EXPECT_NEAR(sent.mean().item<double>(), 0, 0.03);
  EXPECT_NEAR(sent.std().item<double>(), 1, 0.03);
}

// 4c, case 18: claimed examples move the weighted mean, and no robust rule (RobustRules.OrderOfArrivalAndClaimed...).
TEST(Attacks, Case18AttackersClaimMoreExamples) {
  RowFederation rows(kHonest);
  rows.examples[1] = 7;
  const AttacksConfig config =
      ConfigDocument::parse("{attack: free_rider, claim: 100}", "test", {"share=0.25"}).load<AttacksConfig>();
  AttackedFederation federation({rows, config, kSeed});
  const std::vector<ClientId> cohort = {0, 1, 2, 3, 4, 5, 6, 7};
  for (Reply& reply : federation.ask(cohort, Request{.procedure = "train", .round = 1})) {
    const double has = reply.client == 1 ? 7 : 1;
    EXPECT_EQ(reply.body.number("examples"), federation.attackers().contains(reply.client) ? 100 * has : has);
  }
}

TEST(Attacks, AlieSendsMeanLessZDeviations) {
  for (const bool reversed : {false, true}) {
    const Round round = attack("{name: alie, z: 1.5}", reversed);
    const std::vector<ClientId> two(round.attackers.begin(), round.attackers.end());
    const std::vector<double>&a = kHonest[two[0]], &b = kHonest[two[1]];
    for (const ClientId client : two) {
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_NEAR(round.sent.at(client)[i], (a[i] + b[i]) / 2 - 1.5 * std::abs(a[i] - b[i]) / 2, 1e-6);
      }
    }
  }
  // Baruch et al. 2019, section 3.1: n = 50, m = 24 gives s = 2 and Phi(z) = 24 / 26, z = 1.43 in their table.
  EXPECT_NEAR(Alie::largest_z(50, 24), 1.426, 1e-3);
  EXPECT_EQ(Alie::largest_z(50, 26), 0);
}

TEST(Attacks, IpmSendsMinusEpsilonTimesTheHonestMean) {
  for (const bool reversed : {false, true}) {
    const Round round = attack("{name: ipm, epsilon: 0.25}", reversed);
    std::vector<double> mean(2, 0);
    for (ClientId client = 0; client < 8; ++client) {
      for (std::size_t i = 0; i < 2; ++i) mean[i] += round.attackers.contains(client) ? 0 : kHonest[client][i] / 6;
    }
    for (const ClientId client : round.attackers) {
      EXPECT_THAT(round.sent.at(client),
                  ElementsAre(DoubleNear(-0.25 * mean[0], 1e-6), DoubleNear(-0.25 * mean[1], 1e-6)));
    }
  }
}

TEST(Attacks, DataAttacksChangeExamplesAndScaleOnlyOnRequest) {
  const Round flip = attack("label_flip"), plain = attack("{name: backdoor, target: sports}");
  const Round scaled = attack("{name: backdoor, target: sports, factor: 3}");
  for (const ClientId client : flip.attackers) {
    EXPECT_EQ(flip.sent.at(client), kHonest[client]);
    EXPECT_EQ(plain.sent.at(client), kHonest[client]);
    EXPECT_THAT(scaled.sent.at(client), ElementsAre(3 * kHonest[client][0], 3 * kHonest[client][1]));
  }
  EXPECT_TRUE(Attacks::make("label_flip")->poison().has_value());
  EXPECT_FALSE(Attacks::make("sign_flip")->poison().has_value());
}

}  // namespace
}  // namespace chorus::inline attacks
