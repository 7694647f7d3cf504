#include "infrastructure/emulation/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "infrastructure/emulation/bandwidth.h"
#include "tests/support.h"

namespace chorus::inline emulation {
namespace {

using testing::HasSubstr;

DeviceProfile simple_device() {
  DeviceProfile device;
  device.name = "simple";
  device.layers = 4;
  device.batch_size = 2;
  device.sequence_length = 100;
  device.full.seconds = {1, 2, 4, 8, 16};  // depths 0 to 4
  device.full.memory = {0.5, 1, 2, 3, 4};
  device.adapter.depths = {0, 2, 4};
  device.adapter.seconds = {1, 3, 7};
  device.compute_watts = 10;
  device.network_watts = 3;
  return device;
}

EmulatedWork work_at(double depth) {
  return {.way = {}, .depth = depth, .layers = 4, .batch_size = 2, .sequence_length = 100};
}

TEST(CostModel, ARoundByHand) {
  const DeviceProfile device = simple_device();
  const Link link = constant_link(2, 0.5);  // MB/s
  // 6 MB down: 3 s; 5 batches of 4 s, twice as slow: 40 s; 1 MB up: 2 s.
  const Cost cost = cost_of({.profile = device,
                             .work = work_at(2),
                             .load = {.batches = 5, .bytes_down = 6e6, .bytes_up = 1e6},
                             .link = link,
                             .slowdown = 2});
  EXPECT_DOUBLE_EQ(cost.compute_seconds, 40);
  EXPECT_DOUBLE_EQ(cost.network_seconds, 5);
  EXPECT_DOUBLE_EQ(cost.seconds, 45);
  EXPECT_DOUBLE_EQ(cost.joules, 10 * 40 + 3 * 5);
  EXPECT_DOUBLE_EQ(cost.memory, 2e9);
  const Cost far = cost_of({.profile = device,
                            .work = work_at(2),
                            .load = {.batches = 5, .bytes_down = 6e6, .bytes_up = 1e6},
                            .link = link,
                            .slowdown = 2,
                            .latency = 0.25});
  EXPECT_DOUBLE_EQ(far.seconds, 45.5) << "one message in each direction";
  EXPECT_EQ(cost.bytes_down, 6e6);
  EXPECT_EQ(cost.bytes_up, 1e6);
}

TEST(CostModel, ARequestThatComputesNothingNeedsNoEntry) {
  DeviceProfile device = simple_device();
  const Link link = constant_link(1, 1);
  EmulatedWork impossible = work_at(9);
  const Cost cost = cost_of({.profile = device, .work = impossible, .load = {.bytes_down = 1e6}, .link = link});
  EXPECT_DOUBLE_EQ(cost.seconds, 1);
  EXPECT_DOUBLE_EQ(cost.joules, 3);
  EXPECT_EQ(cost.memory, 0);
  EXPECT_THROW((void)cost_of({.profile = device, .work = impossible, .load = {.batches = 1}, .link = link}),
               ConfigError);
}

TEST(CostModel, BatchesScaleWithTheirTokens) {
  const DeviceProfile device = simple_device();
  EmulatedWork work = work_at(1);
  EXPECT_DOUBLE_EQ(batch_seconds(device, work), 2);
  work.batch_size = 8;
  EXPECT_DOUBLE_EQ(batch_seconds(device, work), 8);
  work.sequence_length = 25;
  EXPECT_DOUBLE_EQ(batch_seconds(device, work), 2);
}

TEST(CostModel, TheUploadStartsWhenTheWorkIsDone) {
  std::vector<std::pair<const char*, double>> starts;
  const Link link{[&](double, double start) { return starts.emplace_back("down", start), 3.0; },
                  [&](double, double start) { return starts.emplace_back("up", start), 1.0; }};
  const DeviceProfile device = simple_device();
  const Cost cost =
      cost_of({.profile = device, .work = work_at(0), .load = {.batches = 2}, .link = link, .start = 100});
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_DOUBLE_EQ(starts[0].second, 100);
  EXPECT_DOUBLE_EQ(starts[1].second, 105);  // 3 s down and two batches of 1 s
  EXPECT_DOUBLE_EQ(cost.seconds, 6);
}

TEST(DeviceProfile, DepthsAreExactOrInterpolatedWhenScaled) {
  const DeviceProfile device = simple_device();
  const TuningWay full{}, adapter{TuningWay::Method::kAdapter, false};
  EXPECT_DOUBLE_EQ(device.at(full, 3, 4).seconds, 8);
  EXPECT_DOUBLE_EQ(*device.at(full, 3, 4).memory, 3e9);
  EXPECT_DOUBLE_EQ(device.at(adapter, 2, 4).seconds, 3);
  EXPECT_FALSE(device.at(adapter, 2, 4).memory.has_value());
  EXPECT_THAT(message_of<ConfigError>([&] { (void)device.at(adapter, 1, 4); }), HasSubstr("it has 0, 2, 4"));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)device.at(full, 1, 8); }), HasSubstr("scale_depth"));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)device.at(full, 5, 4); }), HasSubstr("depth 5"));
  EXPECT_THROW((void)device.at(full, -1, 4), ConfigError);
  EXPECT_THAT(message_of<ConfigError>([&] {
                (void)device.at({TuningWay::Method::kFull, true}, 1, 4);
              }),
              HasSubstr("full, cached"));
  // Depth 3 of 8 layers is depth 1.5 of 4.
  EXPECT_DOUBLE_EQ(device.at(full, 3, 8, true).seconds, 3);
  EXPECT_DOUBLE_EQ(*device.at(full, 3, 8, true).memory, 1.5e9);
  EXPECT_DOUBLE_EQ(device.at(adapter, 1, 4, true).seconds, 2);
  EXPECT_DOUBLE_EQ(device.at(full, 8, 8, true).seconds, 16);
}

TEST(DeviceProfile, NamesOfWays) {
  for (const char* key : {"full", "full_cached", "adapter", "adapter_cached"}) {
    const TuningWay way = way_named(key);
    EXPECT_EQ(way.cached, std::string(key).ends_with("_cached"));
    EXPECT_EQ(way.method == TuningWay::Method::kAdapter, std::string(key).starts_with("adapter"));
  }
  EXPECT_EQ(name_of({TuningWay::Method::kAdapter, true}), "adapter, cached");
  EXPECT_THAT(message_of<ConfigError>([] { (void)way_named("lora"); }), HasSubstr("adapter_cached"));
}

/// What a trace moves between two moments, by adding up small steps.
double slow_transfer(const std::vector<std::pair<double, double>>& steps, double period, double bytes, double start) {
  constexpr double kStep = 1e-3;
  double moved = 0, at = start;
  while (moved < bytes / 1e6) {
    const double place = std::fmod(at, period);
    double speed = 0;
    for (const auto& [from, value] : steps) {
      if (place >= from) speed = value;
    }
    moved += speed * kStep;
    at += kStep;
  }
  return at - start;
}

TEST(BandwidthTrace, TransfersEqualAddingUpTheSpeeds) {
  const TemporaryFolder folder;
  std::ofstream(folder / "trace.csv") << "seconds,mbps\n0,1.0\n3,0\n5,0.25\n9,2\n";
  const BandwidthTrace trace = BandwidthTrace::read(folder / "trace.csv");
  EXPECT_DOUBLE_EQ(trace.period(), 13) << "the last line holds as long as the one before it";
  const std::vector<std::pair<double, double>> steps{{0, 1}, {3, 0}, {5, 0.25}, {9, 2}};
  for (const double start : {0.0, 2.5, 4.0, 8.9, 12.99, 13.0, 40.0}) {
    for (const double bytes : {1e3, 0.5e6, 3e6, 12e6, 40e6}) {
      EXPECT_NEAR(trace.transfer(bytes, start), slow_transfer(steps, 13, bytes, start), 0.02) << start << " " << bytes;
    }
  }
  EXPECT_EQ(trace.transfer(0, 4), 0);
}

}  // namespace
}  // namespace chorus::inline emulation
