#include "algorithm/adafl/adafl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "core/base/error.h"

namespace chorus::inline adafl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

/// A layer has 4 elements, one per unit of width. Depth d means the last d layers.
class LayeredVariants : public Variants {
 public:
  Variant whole() const override { return {4, 4}; }
  int unit() const override { return 2; }
  at::Tensor places(const Variant& variant) const override {
    std::vector<std::int64_t> places;
    for (int layer = 4 - variant.depth; layer < 4; ++layer) {
      for (int i = 0; i < variant.width; ++i) places.push_back(layer * 4 + i);
    }
    return torch::tensor(places, at::kLong);
  }
};

struct GroupAsk {
  Variant variant;
  std::vector<ClientId> clients;
  std::int64_t elements;
};

/// Every client adds 1 to every element it receives. A reply takes `seconds(depth, width)` on the emulated clock.
class AdaptingClients : public Federation {
 public:
  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    const Variant variant = read_variant(request.body);
    const at::Tensor model = request.body.tensor("model");
    std::vector<ClientId> sorted(cohort.begin(), cohort.end());
    std::sort(sorted.begin(), sorted.end());
    asks.push_back({variant, sorted, model.numel()});
    const std::vector<ClientId> ids(cohort.begin(), cohort.end());
    return Replies([this, ids, variant, model, next = std::size_t{0}]() mutable -> std::optional<Reply> {
      if (next == ids.size()) return std::nullopt;
      Reply reply{.client = ids[next], .slot = next};
      reply.body.tensors["update"] = torch::ones_like(model);
      reply.body.numbers = {{"examples", 1}, {"batches", 1}, {"steps", 1}, {"loss", 0.5}, {"seconds", 0.1}};
      reply.cost.seconds = seconds(variant);
      ++next;
      return reply;
    });
  }

  std::function<double(const Variant&)> seconds = [](const Variant&) { return 10.0; };
  std::vector<GroupAsk> asks;

 private:
  Roster roster_ = Roster::of_sizes(std::vector<double>(20, 1.0));
};

/// A mean that is given up before anybody is asked where `lost` says so, by the number of the call.
class SometimesNothing : public Aggregation {
 public:
  explicit SometimesNothing(std::function<bool(int)> lost) : lost_(std::move(lost)) {}
  Aggregated aggregate(AggregationInput input) override {
    if (!lost_(calls_++)) return mean_->aggregate(std::move(input));
    Aggregated result;
    result.means.resize(1);
    result.clients.resize(input.cohort.size(), {.failure = "too few"});
    return result;
  }

 private:
  std::function<bool(int)> lost_;
  int calls_ = 0;
  std::unique_ptr<Aggregation> mean_ = Aggregations::make("mean");
};

class AdaFlTest : public testing::Test {
 protected:
  AdaFlTest() {
    config.depth = 2;
    config.width = 2;
    config.width_step = 2;
    config.interval = 10;  // a trial at depth 2 takes 90 s
    for (ClientId id = 0; id < 9; ++id) cohort.push_back({id, 1});
  }
  RoundResult round(AdaFl& algorithm, std::uint64_t number) {
    RoundInput input{clients, *mean, cohort, model, number, 100, seed};
    input.variants = &variants;
    input.judge = [this](const at::Tensor& of_group, const Variant& variant) {
      judged.push_back(variant);
      return judge(of_group, variant);
    };
    return algorithm.round(input);
  }
  /// Which clients trained together in round `number` of a fresh run.
  std::vector<std::vector<ClientId>> groups_of(std::uint64_t with_seed, std::uint64_t number = 1) {
    seed = with_seed;
    clients.asks.clear();
    AdaFl algorithm(config);
    round(algorithm, number);
    std::vector<std::vector<ClientId>> groups;
    for (const GroupAsk& ask : clients.asks) groups.push_back(ask.clients);
    return groups;
  }
  std::string mistake() {
    AdaFl algorithm(config);
    try {
      round(algorithm, 1);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  AdaFlConfig config;
  AdaptingClients clients;
  LayeredVariants variants;
  std::unique_ptr<Aggregation> mean = Aggregations::make("mean");
  std::vector<Member> cohort;
  at::Tensor model = torch::zeros({16}, at::kFloat);
  std::uint64_t seed = 1;
  std::vector<Variant> judged;
  std::function<double(const at::Tensor&, const Variant&)> judge = [](const at::Tensor&, const Variant&) {
    return 0.5;
  };
};

TEST_F(AdaFlTest, DealsEveryClientToOneOfThreeGroups) {
  const auto groups = groups_of(1);
  ASSERT_EQ(groups.size(), 3U);
  std::vector<ClientId> all;
  for (const auto& group : groups) {
    EXPECT_EQ(group.size(), 3U);
    all.insert(all.end(), group.begin(), group.end());
  }
  EXPECT_THAT(all, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(AdaFlTest, GroupsDependOnSeedAndRoundOnly) {
  const auto first = groups_of(1);
  EXPECT_EQ(first, groups_of(1));
  EXPECT_NE(first, groups_of(2));
  EXPECT_NE(first, groups_of(1, 2));
  // The order in which clients were drawn does not matter.
  std::reverse(cohort.begin(), cohort.end());
  EXPECT_EQ(first, groups_of(1));
}

TEST_F(AdaFlTest, EachGroupReceivesOnlyItsVariant) {
  groups_of(1);
  EXPECT_EQ(clients.asks[0].variant, (Variant{2, 2}));
  EXPECT_EQ(clients.asks[0].elements, 4);
  EXPECT_EQ(clients.asks[1].variant, (Variant{3, 2}));
  EXPECT_EQ(clients.asks[1].elements, 6);
  EXPECT_EQ(clients.asks[2].variant, (Variant{2, 4}));
  EXPECT_EQ(clients.asks[2].elements, 8);
}

TEST_F(AdaFlTest, TrialEndsWhenAllGroupsHaveUsedTheirTimeAndTheBestWins) {
  clients.seconds = [](const Variant& variant) { return variant.depth == 3 ? 40.0 : variant.width == 4 ? 20.0 : 10.0; };
  judge = [](const at::Tensor& of_group, const Variant& variant) {
    return variant.depth == 3 ? 0.9 : of_group.sum().item<double>() / 1000;
  };
  AdaFl algorithm(config);
  RoundResult result;
  int rounds = 0;
  do {
    result = round(algorithm, static_cast<std::uint64_t>(++rounds));
  } while (judged.empty());
  // 90 s: nine rounds of 10 s, two of 40 s, four of 20 s.
  EXPECT_EQ(rounds, 9);
  std::map<Variant, int> times;
  for (const GroupAsk& ask : clients.asks) ++times[ask.variant];
  EXPECT_EQ(times, (std::map<Variant, int>{{{2, 2}, 9}, {{2, 4}, 4}, {{3, 2}, 2}}));
  EXPECT_THAT(judged, ElementsAre(Variant{2, 2}, Variant{3, 2}, Variant{2, 4}));
  EXPECT_EQ(algorithm.variant(), (Variant{3, 2}));
  EXPECT_EQ(result.numbers.at("trial/deep"), 0.9);
  EXPECT_EQ(result.numbers.at("trials"), 1);
  EXPECT_EQ(result.numbers.at("depth"), 3);
  // The winner's model: two rounds of +1 in the three top layers, with unchanged width.
  at::Tensor expected = torch::zeros({4, 4}, at::kFloat);
  expected.narrow(0, 1, 3).narrow(1, 0, 2).fill_(2);
  EXPECT_TRUE(torch::equal(model.reshape({4, 4}), expected));
}

TEST_F(AdaFlTest, TheClockIsThatOfTheSlowestGroup) {
  clients.seconds = [](const Variant& variant) { return variant.depth == 3 ? 40.0 : variant.width == 4 ? 20.0 : 10.0; };
  AdaFl algorithm(config);
  std::vector<double> seconds;
  for (std::uint64_t number = 1; number <= 9; ++number) {
    seconds.push_back(round(algorithm, number).emulated.totals.seconds);
  }
  // The deep group leads to 80 s; later rounds cost nothing until the others have caught up.
  EXPECT_THAT(seconds, ElementsAre(40, 40, 0, 0, 0, 0, 0, 0, 10));
}

TEST_F(AdaFlTest, DuringATrialTheModelIsThatOfTheCurrentConfiguration) {
  AdaFl algorithm(config);
  round(algorithm, 1);
  EXPECT_EQ(algorithm.variant(), (Variant{2, 2}));
  at::Tensor expected = torch::zeros({4, 4}, at::kFloat);
  expected.narrow(0, 2, 2).narrow(1, 0, 2).fill_(1);
  EXPECT_TRUE(torch::equal(model.reshape({4, 4}), expected));
}

TEST_F(AdaFlTest, ABranchThatCannotGrowNeedsNoClients) {
  config.depth = 4;  // all layers
  const auto groups = groups_of(1);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].size() + groups[1].size(), 9U);
  EXPECT_EQ(clients.asks[1].variant, (Variant{4, 4}));
}

TEST_F(AdaFlTest, ResumesBitIdenticallyDuringATrial) {
  clients.seconds = [](const Variant& variant) { return 7.0 * variant.depth + variant.width; };
  judge = [](const at::Tensor& of_group, const Variant&) { return of_group.sum().item<double>(); };
  AdaFl whole(config);
  for (std::uint64_t number = 1; number <= 12; ++number) round(whole, number);
  const at::Tensor expected = model.clone();
  const Variant end = whole.variant();
  const std::vector<Variant> decided = judged;

  for (const std::uint64_t stop : {1U, 3U, 5U, 8U}) {
    model = torch::zeros({16}, at::kFloat);
    judged.clear();
    AdaFl before(config), after(config);
    for (std::uint64_t number = 1; number <= stop; ++number) round(before, number);
    std::map<std::string, at::Tensor> saved;
    for (const auto& [name, tensor] : before.state()) saved[name] = tensor.clone();
    after.restore(saved);
    for (std::uint64_t number = stop + 1; number <= 12; ++number) round(after, number);
    EXPECT_TRUE(torch::equal(model, expected)) << stop;
    EXPECT_EQ(after.variant(), end) << stop;
    EXPECT_EQ(judged, decided) << stop;
  }
}

TEST_F(AdaFlTest, StatesOfOtherAlgorithmsAreRefused) {
  AdaFl algorithm(config);
  algorithm.restore({});
  EXPECT_THROW(algorithm.restore({{"velocity", torch::ones({3})}}), DataError);
  EXPECT_THROW(algorithm.restore({{"numbers", torch::ones({4}, at::kFloat)}}), DataError);
  // During a trial, but without its groups.
  EXPECT_THROW(algorithm.restore({{"numbers", torch::ones({4}, at::kDouble)}}), DataError);
  EXPECT_THROW(algorithm.restore({{"numbers", torch::ones({22}, at::kDouble)}}), DataError);
}

TEST_F(AdaFlTest, ReportsImpossibleConfigurations) {
  EXPECT_EQ(mistake(), "");
  config.depth = 5;
  EXPECT_THAT(mistake(), HasSubstr("starts at depth 5 and width 2, but tuning has at most 4 and 4"));
  config.depth = 2;
  config.width_step = 3;
  EXPECT_THAT(mistake(), HasSubstr("multiples of tuning.unit 2"));
  config.width_step = 2;
  cohort.resize(2);
  EXPECT_THAT(mistake(), HasSubstr("at least 3 clients"));
  cohort.push_back({5, 1});
  clients.seconds = [](const Variant&) { return 0.0; };
  EXPECT_THAT(mistake(), HasSubstr("give `emulation`"));
}

TEST_F(AdaFlTest, AGroupWhoseClientsAllFailKeepsItsModel) {
  class Failing : public AdaptingClients {
   public:
    Replies ask(std::span<const ClientId> asked, Request request) override {
      const bool deep = read_variant(request.body).depth == 3;
      auto inner = std::make_shared<Replies>(AdaptingClients::ask(asked, std::move(request)));
      return Replies([inner, deep] {
        auto reply = inner->next();
        if (reply && deep) reply->failure = "no battery";
        return reply;
      });
    }
  } failing;
  RoundInput input{failing, *mean, cohort, model, 1, 100, seed};
  input.variants = &variants;
  input.judge = [](const at::Tensor&, const Variant&) { return 0.0; };
  AdaFl algorithm(config);
  const RoundResult result = algorithm.round(input);
  EXPECT_EQ(result.failed.size(), 3U);
  EXPECT_EQ(result.examples, 6);
  EXPECT_EQ(algorithm.state().at("group.1").abs().sum().item<double>(), 0);
}

// A secure sum over too few clients takes no time; the clock of its group goes on with the others.
TEST_F(AdaFlTest, AGroupWhoseSumIsGivenUpWaitsForTheOthers) {
  mean = std::make_unique<SometimesNothing>([](int call) { return call % 3 == 1; });  // the second group's
  AdaFl algorithm(config);
  double clock = 0;
  int rounds = 0;
  while (judged.empty() && rounds < 20) {
    const RoundResult result = round(algorithm, static_cast<std::uint64_t>(++rounds));
    EXPECT_EQ(result.failed.size(), 3U);
    clock += result.emulated.totals.seconds;
  }
  EXPECT_EQ(rounds, 9);
  EXPECT_EQ(clock, 90);
  EXPECT_THAT(judged, ElementsAre(Variant{2, 2}, Variant{2, 4})) << "it has trained nothing to compare";

  mean = std::make_unique<SometimesNothing>([](int) { return true; });
  AdaFl nobody(config);
  const RoundResult result = round(nobody, 1);
  EXPECT_EQ(result.failed.size(), 9U);
  EXPECT_EQ(result.emulated.totals.seconds, 0);
}

}  // namespace
}  // namespace chorus::inline adafl
