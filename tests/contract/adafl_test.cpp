// AdaFL's published schedules, reproduced by the configurator and the emulated clock.
#include <gtest/gtest.h>

#include <algorithm>

#include "algorithm/adafl/configurator.h"
#include "infrastructure/emulation/cost_model.h"

namespace chorus::inline contract {
namespace {

struct Schedule {
  const char* name;
  int depth_step;
  double interval, batches;
  std::vector<int> depths, widths;
  std::vector<std::int64_t> rounds;
};

std::vector<int> times(std::initializer_list<std::pair<int, int>> runs) {
  std::vector<int> result;
  for (const auto& [value, count] : runs) result.insert(result.end(), static_cast<std::size_t>(count), value);
  return result;
}

// From the logs of the code of Cai et al. 2023: the configuration and the round at the end of every trial.
std::vector<Schedule> schedules() {
  return {
      {"20news",
       1,
       60,
       29,
       times({{0, 2}, {2, 16}, {3, 2}}),
       {8, 8, 8, 16, 16, 16, 24, 32, 32, 32, 40, 48, 48, 48, 56, 64, 64, 64, 64, 64},
       {-1, 79, 88, 180, 272, 364, 453, 539, 625, 711, 794, 875, 956, 1037, 1115, 1191, 1267, 1343, 1393, 1467}},
      {"agnews",
       1,
       90,
       30,
       times({{0, 3}, {2, 3}, {3, 3}, {4, 2}, {5, 6}, {6, 5}}),
       {8, 16, 16, 16, 24, 24, 24, 24, 24, 24, 32, 32, 40, 40, 40, 48, 48, 48, 56, 64, 64, 72},
       {-1,   116,  233,  247,  377,  507,  594,  720,  846,  941,  1061,
        1157, 1272, 1387, 1502, 1614, 1726, 1819, 1927, 2032, 2137, 2242}},
      {"semeval",
       4,
       90,
       20,
       times({{1, 2}, {5, 10}, {9, 1}, {12, 10}}),
       {8, 16, 16, 16, 16, 16, 16, 16, 16, 24, 32, 32, 32, 32, 32, 40, 48, 48, 48, 56, 56, 56, 56},
       {-1,   206,  249,  434,  619,  804,  989,  1174, 1359, 1535, 1703, 1871,
        1964, 2088, 2253, 2410, 2561, 2712, 2863, 3008, 3153, 3298, 3443}},
      {"onto",
       4,
       100,
       20,
       times({{1, 6}, {5, 4}, {9, 2}, {12, 7}}),
       {8, 8, 16, 24, 24, 32, 32, 32, 32, 40, 40, 40, 40, 48, 56, 56, 56, 64, 72},
       {-1, 240, 470, 690, 910, 1120, 1163, 1350, 1537, 1716, 1815, 1991, 2123, 2291, 2452, 2613, 2774, 2929, 3084}},
  };
}

// Cai et al. 2023: 4 bytes per parameter, both ways at 1 MB/s, cached batches of length 256 on a TX2.
double round_seconds(const Variant& variant, double batches) {
  static const DeviceProfile profile = find_profile("jetson_tx2");
  static const Link link = constant_link(1, 1);
  const double bytes = 4e6 * (0.02 + variant.depth * 0.05 * std::min(variant.width, 64) / 32);
  const EmulatedWork work{{TuningWay::Method::kAdapter, true}, static_cast<double>(variant.depth)};
  return cost_of({.profile = profile, .work = work, .load = {batches, bytes, bytes}, .link = link}).seconds;
}

TEST(AdaFl, ReproducesThePublishedSchedules) {
  std::size_t checked = 0;
  for (const Schedule& schedule : schedules()) {
    ASSERT_EQ(schedule.depths.size(), schedule.rounds.size()) << schedule.name;
    ASSERT_EQ(schedule.widths.size(), schedule.rounds.size()) << schedule.name;
    ConfiguratorRules rules;
    rules.interval = schedule.interval;
    rules.depth_step = schedule.depth_step;
    rules.most_width = 1000;  // the code keeps counting beyond 64, where the width no longer grows
    Configurator configurator(rules, {schedule.depths[0], schedule.widths[0]});
    std::int64_t round = schedule.rounds[0];
    ++checked;
    for (std::size_t i = 1; i < schedule.rounds.size(); ++i) {
      const Variant next{schedule.depths[i], schedule.widths[i]};
      const auto winner = std::find_if(Configurator::kBranches.begin(), Configurator::kBranches.end(),
                                       [&](auto branch) { return configurator.variant(branch) == next; });
      ASSERT_NE(winner, Configurator::kBranches.end()) << schedule.name << " " << i;
      // The last round of a job is not evaluated.
      round += configurator.rounds(round_seconds(next, schedule.batches)) - 1;
      EXPECT_EQ(round, schedule.rounds[i]) << schedule.name << " " << i;
      configurator.adopt(*winner);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 84U);  // 80 trials, and the starts of the four runs
}

TEST(AdaFl, TheBestGroupWinsAndTiesGoToTheCheapest) {
  using enum Configurator::Branch;
  EXPECT_EQ(Configurator::winner({0.7, 0.8, 0.75}), kDeep);
  EXPECT_EQ(Configurator::winner({0.7, 0.7, 0.7}), kShallow);
  EXPECT_EQ(Configurator::winner({0.6, 0.7, 0.7}), kWide);
  EXPECT_EQ(Configurator::winner({std::nan(""), 0.1, 0.2}), kWide);
}

TEST(AdaFl, GrowthStopsAtTheWholeNetwork) {
  ConfiguratorRules rules;
  rules.most_depth = 4;
  rules.most_width = 16;
  Configurator configurator(rules, {4, 16});
  EXPECT_FALSE(configurator.differs(Configurator::kDeep));
  EXPECT_FALSE(configurator.differs(Configurator::kWide));
  EXPECT_TRUE(configurator.differs(Configurator::kShallow));
  Configurator begin(rules, {0, 8});
  EXPECT_EQ(begin.variant(Configurator::kDeep).depth, 2);
}

}  // namespace
}  // namespace chorus::inline contract
