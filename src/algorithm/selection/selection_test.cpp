#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "algorithm/selection/device_coverage.h"
#include "algorithm/selection/extremes.h"
#include "algorithm/selection/fednlp_choice.h"
#include "algorithm/selection/sampling.h"
#include "algorithm/selection/selector.h"
#include "algorithm/selection/weighted.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline selection {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::unique_ptr<Selector> configured(const std::string& name, const std::vector<std::string>& settings = {}) {
  Choice<Selectors> choice(name);
  ConfigDocument::parse("", "test", settings).fill([&](ConfigVisitor& v) { choice.describe(v); });
  return choice.make();
}

/// Log-normal sizes over four decades, as in Dupuy et al. 2022, every `empty`-th client without data.
std::vector<double> device_sizes(std::size_t clients, std::size_t empty = 0, double sigma = 2) {
  RandomStream stream({.seed = 5, .purpose = "test.sizes"});
  std::vector<double> sizes(clients);
  for (std::size_t i = 0; i < clients; ++i) {
    sizes[i] = std::ceil(20 * std::exp(sigma * stream.normal()));
    if (empty != 0 && i % empty == 0) sizes[i] = 0;
  }
  return sizes;
}

std::vector<double> own_number(std::span<const ClientId> clients) { return {clients.begin(), clients.end()}; }

/// |observed - expected| within five standard deviations of a binomial, for every client.
void expect_inclusion(const Selector& selector, SelectionContext context, const std::vector<double>& expected,
                      std::size_t rounds) {
  std::vector<double> times(expected.size(), 0);
  for (std::size_t round = 0; round < rounds; ++round) {
    context.round = round;
    const std::vector<ClientId> cohort = selector.select(context);
    for (const ClientId client : std::set<ClientId>(cohort.begin(), cohort.end())) times[client] += 1;
  }
  const double n = static_cast<double>(rounds);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double deviation = std::sqrt(n * expected[i] * (1 - expected[i]));
    EXPECT_NEAR(times[i], n * expected[i], 5 * deviation + 1e-6) << "client " << i;
  }
}

TEST(Selectors, AreAllRegistered) {
  EXPECT_THAT(Selectors::names(), ElementsAre("available", "fednlp", "heavy", "light", "poisson", "power_of_choice",
                                              "separated", "stratified", "uniform", "weighted"));
  EXPECT_THAT([] { Selectors::make("wieghted"); }, ThrowsMessage<ConfigError>(HasSubstr("did you mean 'weighted'?")));
}

class EverySelector : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Selector> selector() const {
    const std::map<std::string, std::vector<std::string>> settings{
        {"available", {"share=1"}}, {"poisson", {"secret=false"}}, {"separated", {"separation=1"}}};
    const auto found = settings.find(GetParam());
    return configured(GetParam(), found == settings.end() ? std::vector<std::string>{} : found->second);
  }
};

TEST_P(EverySelector, TakesDistinctClientsWithDataAndTheSameOnesAgain) {
  const std::vector<double> sizes = device_sizes(1000, 3);
  const auto chosen = selector();
  std::set<std::vector<ClientId>> cohorts;
  for (std::uint64_t round = 0; round < 20; ++round) {
    const SelectionContext context{.sizes = sizes, .count = 37, .seed = 9, .round = round, .losses = own_number};
    const std::vector<ClientId> cohort = chosen->select(context);
    EXPECT_EQ(cohort, selector()->select(context));
    if (GetParam() != "poisson") {
      EXPECT_EQ(cohort.size(), 37u);
    }
    EXPECT_EQ(std::set<ClientId>(cohort.begin(), cohort.end()).size(), cohort.size());
    for (const ClientId client : cohort) {
      ASSERT_LT(client, sizes.size());
      EXPECT_GT(sizes[client], 0);
    }
    cohorts.insert(cohort);
  }
  EXPECT_EQ(cohorts.size(), 20u);
  if (GetParam() == "fednlp") return;  // as FedNLP: the seed does not matter
  SelectionContext context{.sizes = sizes, .count = 37, .seed = 9, .losses = own_number};
  const std::vector<ClientId> cohort = chosen->select(context);
  context.seed = 10;
  EXPECT_NE(cohort, chosen->select(context));
}

TEST_P(EverySelector, LeavesOutWhoCannotBeReached) {
  const std::vector<double> sizes = device_sizes(300);
  std::vector<std::uint8_t> reachable(300, 0);
  for (std::size_t i = 0; i < 300; i += 2) reachable[i] = 1;
  const SelectionContext context{
      .sizes = sizes, .count = 5, .seed = 1, .round = 2, .losses = own_number, .reachable = reachable};
  for (const ClientId client : selector()->select(context)) EXPECT_EQ(client % 2, 0u);
}

TEST_P(EverySelector, CanTakeAllThatItMayAndSaysWhenThatIsNotEnough) {
  const std::vector<double> sizes = device_sizes(101, 10);  // 11 empty
  const auto chosen = selector();
  SelectionContext context{.sizes = sizes, .seed = 1, .losses = own_number};
  const std::size_t most = chosen->most(context);
  EXPECT_EQ(most, GetParam() == "heavy" || GetParam() == "light" ? 18u : 90u);
  context.count = most;
  std::vector<ClientId> cohort = chosen->select(context);
  std::sort(cohort.begin(), cohort.end());
  EXPECT_TRUE(std::adjacent_find(cohort.begin(), cohort.end()) == cohort.end());
  EXPECT_EQ(cohort.size(), most);

  context.count = most + 1;
  EXPECT_THAT([&] { chosen->select(context); },
              ThrowsMessage<ConfigError>(testing::AllOf(HasSubstr("clients_per_round is " + std::to_string(most + 1)),
                                                        HasSubstr("there are " + std::to_string(most)),
                                                        HasSubstr("at most " + std::to_string(most)))));
  context.count = 0;
  EXPECT_THAT([&] { chosen->select(context); }, ThrowsMessage<ConfigError>(HasSubstr("at least 1")));
  context.count = 1;
  context.sizes = {};
  EXPECT_THROW(chosen->select(context), ConfigError);
}

TEST_P(EverySelector, IsFastWithManyClients) {
  const std::vector<double> sizes = device_sizes(100'000);
  const auto chosen = selector();
  double best = 1e9;
  for (std::uint64_t round = 0; round < 3; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    chosen->select({.sizes = sizes, .count = 800, .seed = 1, .round = round, .losses = own_number});
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  RecordProperty("milliseconds", std::to_string(1000 * best));
  EXPECT_LT(best, 0.25);  // it takes a few milliseconds; n times count would take seconds
}

INSTANTIATE_TEST_SUITE_P(Selectors, EverySelector, testing::ValuesIn(Selectors::names()),
                         [](const auto& test) { return test.param; });

TEST(Poisson, TakesEveryClientIndependently) {
  const std::vector<double> sizes = device_sizes(50, 5);  // 10 empty
  for (const char* setting : {"secret=true", "secret=false"}) {
    const auto selector = configured("poisson", {setting});
    std::vector<double> expected(50, 0.1);
    for (std::size_t i = 0; i < 50; i += 5) expected[i] = 0;
    SelectionContext context{.sizes = sizes, .count = 4, .seed = 3};
    expect_inclusion(*selector, context, expected, 20'000);
    // A binomial number of clients: variance n q (1 - q), and sometimes nobody.
    double sum = 0, squares = 0, empty = 0;
    for (context.round = 0; context.round < 20'000; ++context.round) {
      const auto size = static_cast<double>(selector->select(context).size());
      sum += size;
      squares += size * size;
      empty += size == 0 ? 1 : 0;
    }
    const double mean = sum / 20'000;
    EXPECT_NEAR(mean, 4, 5 * std::sqrt(3.6 / 20'000));
    EXPECT_NEAR(squares / 20'000 - mean * mean, 3.6, 0.2);
    EXPECT_NEAR(empty, 20'000 * std::pow(0.9, 40), 5 * std::sqrt(20'000 * std::pow(0.9, 40)));
  }
}

// Clients have left: those that stay are not drawn more often than privacy was accounted for.
TEST(Poisson, WhoStaysIsNotDrawnMoreOften) {
  const std::vector<double> sizes = device_sizes(50, 5);  // 40 are left
  std::vector<double> expected(50, 0.05);
  for (std::size_t i = 0; i < 50; i += 5) expected[i] = 0;
  expect_inclusion(*configured("poisson"), {.sizes = sizes, .count = 4, .population = 80, .seed = 3}, expected, 20'000);
  for (double& rate : expected) rate *= 2;  // and with more clients than at first, less often
  expect_inclusion(*configured("poisson"), {.sizes = sizes, .count = 4, .population = 20, .seed = 3}, expected, 20'000);
}

TEST(Poisson, SecretDrawsCannotBeRepeated) {
  const std::vector<double> sizes(200, 1);
  const SelectionContext context{.sizes = sizes, .count = 100, .seed = 3, .round = 1};
  EXPECT_NE(configured("poisson")->select(context), configured("poisson")->select(context));
}

TEST(Uniform, ReachesEveryoneEquallyOften) {
  std::vector<double> sizes(12, 5);
  sizes[3] = 0;
  std::vector<double> expected(12, 4.0 / 11);
  expected[3] = 0;
  expect_inclusion(*configured("uniform"), {.sizes = sizes, .count = 4, .seed = 3}, expected, 20'000);
}

TEST(Inclusion, MatchesEnumerationByHand) {
  // Sums over all ordered draws, in rational arithmetic.
  const auto small = inclusion_probabilities(std::vector<double>{1, 2, 3}, {.count = 2});
  EXPECT_NEAR(small[0], 5.0 / 12, 1e-12);
  EXPECT_NEAR(small[1], 11.0 / 15, 1e-12);
  EXPECT_NEAR(small[2], 17.0 / 20, 1e-12);
  const auto wide = inclusion_probabilities(std::vector<double>{100, 1, 0, 10, 2, 5}, {.count = 3});
  EXPECT_NEAR(wide[0], 943823904636399355.0 / 944539300716845652.0, 1e-12);
  EXPECT_NEAR(wide[1], 33649305170029.0 / 219316027333104.0, 1e-12);
  EXPECT_EQ(wide[2], 0);
  EXPECT_NEAR(wide[3], 665543681137.0 / 763606438413.0, 1e-12);
  EXPECT_NEAR(wide[4], 7352521556239.0 / 24552488843064.0, 1e-12);
  EXPECT_NEAR(wide[5], 14409381057407.0 / 21306568632336.0, 1e-12);
  const auto equal = inclusion_probabilities(std::vector<double>{1, 1, 2, 3, 50, 1000}, {.count = 4});
  EXPECT_NEAR(equal[0], 0.3310862160314288, 1e-12);
  EXPECT_EQ(equal[0], equal[1]);
  EXPECT_NEAR(equal[3], 0.7430318260049885, 1e-12);
  EXPECT_NEAR(equal[5], 0.9999999821407843, 1e-12);
}

TEST(Inclusion, OfOneDrawIsTheWeightAndTheSumIsTheCount) {
  const std::vector<double> sizes = device_sizes(161, 7);
  const double total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  const auto one = inclusion_probabilities(sizes, {.count = 1});
  for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_NEAR(one[i], sizes[i] / total, 1e-11);
  for (const std::size_t count : {2, 20, 70, 137}) {
    const auto some = inclusion_probabilities(sizes, {.count = count});
    EXPECT_NEAR(std::accumulate(some.begin(), some.end(), 0.0), static_cast<double>(count), 1e-8) << count;
  }
  const auto all = inclusion_probabilities(sizes, {.count = 138});
  for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_NEAR(all[i], sizes[i] > 0 ? 1 : 0, 1e-9);
}

TEST(Inclusion, NormalApproximationIsAsCloseAsDocumented) {
  for (const double sigma : {0.5, 2.0}) {
    const std::vector<double> sizes = device_sizes(800, 0, sigma);
    for (const SizeFunction f : {SizeFunction::kLinear, SizeFunction::kInverseLog, SizeFunction::kOne}) {
      const std::vector<double> weights = weights_of(f, sizes);
      const auto exact = inclusion_probabilities(weights, {.count = 120});
      const auto normal = inclusion_probabilities(weights, {.count = 120, .force_normal = true});
      double worst = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, std::abs(exact[i] - normal[i]));
      RecordProperty(std::to_string(sigma) + std::to_string(static_cast<int>(f)), std::to_string(1e6 * worst));
      EXPECT_LT(worst, 1e-5) << sigma << " " << static_cast<int>(f);
    }
  }
}

TEST(Weighted, IncludesClientsAsOftenAsItShould) {
  const std::vector<double> sizes{1, 0, 3, 10, 30, 100, 300, 1000, 1000, 3000};
  const std::map<std::string, SizeFunction> functions{{"one", SizeFunction::kOne},
                                                      {"log", SizeFunction::kLog},
                                                      {"sqrt", SizeFunction::kSqrt},
                                                      {"linear", SizeFunction::kLinear},
                                                      {"inverse_log", SizeFunction::kInverseLog}};
  for (const auto& [name, f] : functions) {
    const std::vector<double> weights = weights_of(f, sizes);
    EXPECT_EQ(weights[1], 0);
    for (const bool replacement : {false, true}) {
      SCOPED_TRACE(name + (replacement ? " with replacement" : ""));
      const auto selector =
          configured("weighted", {"f=" + name, replacement ? "replacement=true" : "replacement=false"});
      expect_inclusion(*selector, {.sizes = sizes, .count = 4, .seed = 17},
                       inclusion_probabilities(weights, {.count = 4, .replacement = replacement}), 20'000);
    }
  }
  EXPECT_NEAR(apply(SizeFunction::kInverseLog, std::exp(1) - 1), 1, 1e-15);
  EXPECT_NEAR(apply(SizeFunction::kLog, std::exp(2) - 1), 2, 1e-15);
}

TEST(Weighted, DrawsOneAfterTheOther) {
  // The order too is that of successive sampling: P(first a, then b) = w_a / W * w_b / (W - w_a).
  const std::vector<double> weights{1, 2, 3};
  std::map<std::pair<std::size_t, std::size_t>, double> times;
  RandomStream stream({.seed = 2, .purpose = "test"});
  constexpr int kDraws = 60'000;
  for (int i = 0; i < kDraws; ++i) {
    const auto drawn = sample_successive(weights, 2, stream);
    times[{drawn[0], drawn[1]}] += 1;
  }
  double chi_square = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) {
      if (a == b) continue;
      const double expected = kDraws * weights[a] / 6 * weights[b] / (6 - weights[a]);
      chi_square += std::pow(times[{a, b}] - expected, 2) / expected;
    }
  }
  EXPECT_LT(chi_square, 20.5);  // 5 degrees of freedom: P(above) = 0.001
  EXPECT_EQ(times.size(), 6u);
}

TEST(Weighted, MayTakeMoreDrawsThanClientsWithReplacement) {
  const std::vector<double> sizes{0, 4, 1};
  const auto selector = configured("weighted", {"f=linear", "replacement=true"});
  std::vector<double> times(3, 0);
  const std::vector<ClientId> cohort = selector->select({.sizes = sizes, .count = 10'000, .seed = 4});
  for (const ClientId client : cohort) times[client] += 1;
  EXPECT_EQ(times[0], 0);
  EXPECT_NEAR(times[1], 8000, 5 * std::sqrt(1600.0));
}

TEST(Coverage, OrdersPaper002sStrategiesByDistinctDevices) {
  const std::vector<double> sizes = device_sizes(2000);
  std::map<std::string, std::size_t> distinct;
  for (const std::string f : {"one", "inverse_log", "log", "sqrt", "linear"}) {
    const auto selector = configured("weighted", {"f=" + f});
    DeviceCoverage coverage(sizes);
    std::vector<double> weights;
    for (std::uint64_t round = 0; round < 40; ++round) {
      coverage.add(selector->select({.sizes = sizes, .count = 80, .seed = 2, .round = round}));
    }
    distinct[f] = coverage.distinct();
    EXPECT_EQ(coverage.selections(), 3200u);
  }
  DeviceCoverage heavy(sizes);
  for (std::uint64_t round = 0; round < 40; ++round) {
    heavy.add(configured("heavy")->select({.sizes = sizes, .count = 80, .seed = 2, .round = round}));
  }
  EXPECT_EQ(heavy.distinct(), 400u);  // exactly its 20 %
  EXPECT_EQ(heavy.groups()[9].reached, 200u);
  EXPECT_EQ(heavy.groups()[8].reached, 200u);
  EXPECT_EQ(heavy.groups()[7].reached, 0u);
  EXPECT_GT(distinct["one"], 1570u);  // 2000 (1 - 0.96^40) = 1609
  EXPECT_GT(distinct["inverse_log"], 1350u);
  EXPECT_GT(distinct["inverse_log"], distinct["sqrt"]);
  EXPECT_GT(distinct["log"], distinct["sqrt"]);
  EXPECT_GT(distinct["sqrt"], distinct["linear"]);
  EXPECT_LT(distinct["linear"], 1100u);

  // The counts match the inclusion probabilities.
  const auto pi = inclusion_probabilities(weights_of(SizeFunction::kLinear, sizes), {.count = 80});
  double expected = 0;
  for (const double p : pi) expected += 1 - std::pow(1 - p, 40);
  EXPECT_NEAR(static_cast<double>(distinct["linear"]), expected, 5 * std::sqrt(expected));
}

TEST(Coverage, CountsByGroupsOfActivity) {
  const std::vector<double> sizes{5, 0, 1, 9, 2};
  DeviceCoverage coverage(sizes, 2);
  coverage.add(std::vector<ClientId>{3, 3, 2});
  coverage.add({});
  EXPECT_EQ(coverage.rounds(), 2u);
  EXPECT_EQ(coverage.clients(), 4u);
  EXPECT_EQ(coverage.distinct(), 2u);
  EXPECT_EQ(coverage.selections(), 3u);
  ASSERT_EQ(coverage.groups().size(), 2u);
  EXPECT_EQ(coverage.groups()[0].clients, 2u);
  EXPECT_EQ(coverage.groups()[0].reached, 1u);
  EXPECT_EQ(coverage.groups()[0].largest, 2);
  EXPECT_EQ(coverage.groups()[1].selections, 2u);
  EXPECT_THAT(coverage.times(), ElementsAre(0, 0, 1, 2, 0));
  EXPECT_EQ(coverage.text(), "reached 2 of 4 devices (50.0 %) in 2 rounds; from least to most active: 50 %, 50 %");
  EXPECT_THROW(coverage.add(std::vector<ClientId>{5}), InternalError);
  EXPECT_EQ(DeviceCoverage(sizes).groups().size(), 4u);
  EXPECT_EQ(DeviceCoverage({}).share(), 0);
}

TEST(Extremes, CutTiesAtTheBorderByNumber) {
  // 20 % of 9 clients with data are 2, rounded up; three share the border size.
  const std::vector<double> sizes{7, 1, 7, 0, 9, 1, 7, 1, 3, 3};
  const SelectionContext context{.sizes = sizes};
  EXPECT_THAT(ExtremesSelector({}, true).members(context), ElementsAre(4, 6));
  EXPECT_THAT(ExtremesSelector({}, false).members(context), ElementsAre(1, 5));
  EXPECT_THAT(ExtremesSelector({.share = 1.0 / 3}, true).members(context), ElementsAre(2, 4, 6));
  EXPECT_THAT(ExtremesSelector({.share = 0.01}, true).members(context), ElementsAre(4));
  EXPECT_EQ(ExtremesSelector({.share = 1}, true).members(context).size(), 9u);
  const std::vector<double> even(15, 2);
  EXPECT_EQ(ExtremesSelector({.share = 0.2}, true).members({.sizes = even}).size(), 3u);
  EXPECT_THROW(configured("heavy", {"share=0"}), ConfigError);
  EXPECT_THAT([&] { configured("light")->select({.sizes = sizes, .count = 3}); },
              ThrowsMessage<ConfigError>(HasSubstr("(share: 0.2)")));
}

TEST(Stratified, TakesTheSameShareOfEveryGroup) {
  const std::vector<double> sizes = device_sizes(1000);
  const auto selector = configured("stratified");
  DeviceCoverage coverage(sizes);
  for (std::uint64_t round = 0; round < 50; ++round) {
    coverage.add(selector->select({.sizes = sizes, .count = 20, .seed = 6, .round = round}));
  }
  for (const DeviceCoverage::Group& group : coverage.groups()) EXPECT_EQ(group.selections, 100u);
}

TEST(Stratified, SpreadsRemaindersFairly) {
  std::vector<double> sizes(10);
  for (std::size_t i = 0; i < 10; ++i) sizes[i] = static_cast<double>(i + 1);
  // Strata of 3, 3 and 4 clients and 4 per round: 1.2, 1.2 and 1.6, so 1, 1 and 2.
  const auto selector = configured("stratified", {"strata=3"});
  expect_inclusion(*selector, {.sizes = sizes, .count = 4, .seed = 8},
                   {1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3, .5, .5, .5, .5}, 20'000);
  // One per round from three equal strata: every client is selected at some point.
  const std::vector<double> nine(9, 1);
  expect_inclusion(*selector, {.sizes = nine, .count = 1, .seed = 8}, std::vector<double>(9, 1. / 9), 20'000);
  EXPECT_EQ(configured("stratified", {"strata=50"})->select({.sizes = sizes, .count = 10}).size(), 10u);
}

TEST(PowerOfChoice, KeepsTheHighestLossesOfItsCandidates) {
  const std::vector<double> sizes = device_sizes(200);
  std::vector<ClientId> asked;
  SelectionContext context{.sizes = sizes, .count = 5, .seed = 3, .round = 1};
  context.losses = [&](std::span<const ClientId> clients) {
    asked.assign(clients.begin(), clients.end());
    return own_number(clients);
  };
  const std::vector<ClientId> cohort = configured("power_of_choice", {"candidates=30"})->select(context);
  EXPECT_EQ(asked.size(), 30u);
  std::vector<ClientId> best = asked;
  std::sort(best.rbegin(), best.rend());
  best.resize(5);
  EXPECT_EQ(cohort, best);
  configured("power_of_choice")->select(context);
  EXPECT_EQ(asked.size(), 10u);
  configured("power_of_choice", {"candidates=1000"})->select(context);
  EXPECT_EQ(asked.size(), 200u);
}

TEST(PowerOfChoice, WithAsManyCandidatesAsClientsIsLinear) {
  const std::vector<double> sizes{1, 2, 3};
  const SelectionContext context{.sizes = sizes, .count = 2, .seed = 3, .losses = own_number};
  expect_inclusion(*configured("power_of_choice", {"candidates=2"}), context, {5. / 12, 11. / 15, 17. / 20}, 20'000);
}

TEST(PowerOfChoice, SaysWhatItNeeds) {
  const std::vector<double> sizes(10, 1);
  SelectionContext context{.sizes = sizes, .count = 4};
  EXPECT_THAT([&] { configured("power_of_choice")->select(context); },
              ThrowsMessage<ConfigError>(HasSubstr("needs the current losses")));
  context.losses = own_number;
  EXPECT_THAT([&] { configured("power_of_choice", {"candidates=3"})->select(context); },
              ThrowsMessage<ConfigError>(HasSubstr("set candidates to at least 4")));
  // A diverged client is not preferred.
  context.losses = [](std::span<const ClientId> clients) {
    std::vector<double> losses(clients.size(), 1);
    losses[0] = std::numeric_limits<double>::quiet_NaN();
    return losses;
  };
  context.count = 9;
  const std::vector<ClientId> cohort = configured("power_of_choice")->select(context);
  EXPECT_EQ(std::set<ClientId>(cohort.begin(), cohort.end()).size(), 9u);
  context.losses = [](std::span<const ClientId>) { return std::vector<double>{}; };
  EXPECT_THROW(configured("power_of_choice")->select(context), InternalError);
}

TEST(Fednlp, IsNumpysChoice) {
  // numpy 2.4: np.random.seed(round); np.random.choice(range(n), k, replace=False)
  const auto choice = [](std::uint64_t round, std::size_t clients, std::size_t count) {
    const std::vector<double> sizes(clients, 1);
    return configured("fednlp")->select({.sizes = sizes, .count = count, .seed = 77, .round = round});
  };
  EXPECT_THAT(choice(0, 100, 10), ElementsAre(26, 86, 2, 55, 75, 93, 16, 73, 54, 95));
  EXPECT_THAT(choice(1, 100, 10), ElementsAre(80, 84, 33, 81, 93, 17, 36, 82, 69, 65));
  EXPECT_THAT(choice(7, 30, 5), ElementsAre(2, 17, 1, 9, 11));
  EXPECT_THAT(choice(299, 1000, 8), ElementsAre(827, 408, 500, 263, 913, 992, 169, 502));
  EXPECT_THAT(choice(4294967295, 5, 4), ElementsAre(4, 1, 0, 2));
  EXPECT_THAT(choice(3, 5, 5), ElementsAre(0, 1, 2, 3, 4));  // all take part: in order
  EXPECT_THROW(choice(4294967296, 5, 4), ConfigError);
  const std::vector<std::uint32_t> order = numpy_permutation(3, 100'000);
  EXPECT_EQ(order[0], 79528u);
  EXPECT_EQ(order[5], 85042u);
  EXPECT_EQ(order.back(), 71530u);
}

}  // namespace
}  // namespace chorus::inline selection
