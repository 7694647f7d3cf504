#include "infrastructure/emulation/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline emulation {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kProfileYaml = R"(
kind: device_profile
name: slowpoke
layers: 4
batch_size: 8
sequence_length: 32
full: {depths: [0, 2, 4], seconds: [1, 2, 4], memory: [0.5, 1, 2]}
compute_watts: 5
network_watts: 1
download: 2
upload: 0.5
)";

class FleetTest : public ::testing::Test {
 protected:
  FleetTest() {
    std::string pattern = (fs::temp_directory_path() / "chorus_fleet_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FleetTest() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  std::string profile_file() const { return file("slowpoke.yaml", kProfileYaml); }

  static EmulationConfig config(const std::string& yaml) {
    return ConfigDocument::parse(yaml, "test").load<EmulationConfig>();
  }
  static std::string mistake(const std::string& yaml) {
    return message([&] { config(yaml); });
  }
  template <typename Call>
  static std::string message(Call call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

constexpr TuningWay kWhole{TuningWay::Method::kFull, false};
constexpr TuningWay kWholeCached{TuningWay::Method::kFull, true};
const EmulatedWork kWork{kWhole, 4, 4, 8, 32};

TEST_F(FleetTest, AProfileIsAFileOfItsOwn) {
  const DeviceProfile profile = find_profile(profile_file());
  EXPECT_EQ(profile.name, "slowpoke");
  EXPECT_EQ(profile.at(kWhole, 2, 4).seconds, 2);
  EXPECT_EQ(profile.at(kWhole, 4, 4).memory, 2e9);
  const Link link = constant_link(profile.download, profile.upload);
  const Cost cost = cost_of({.profile = profile, .work = kWork, .load = {10, 4e6, 3e6}, .link = link, .slowdown = 1.5});
  EXPECT_DOUBLE_EQ(cost.compute_seconds, 60);
  EXPECT_DOUBLE_EQ(cost.network_seconds, 2 + 6);
  EXPECT_DOUBLE_EQ(cost.seconds, 68);
  EXPECT_DOUBLE_EQ(cost.joules, 5 * 60 + 8);
  EXPECT_DOUBLE_EQ(cost.memory, 2e9);
  // Round trip.
  const DeviceProfile again = find_profile(file("again.yaml", config_to_yaml(profile, "device_profile")));
  EXPECT_EQ(config_to_yaml(again), config_to_yaml(profile));
}

TEST_F(FleetTest, CostsScaleWithTokens) {
  const DeviceProfile profile = find_profile(profile_file());
  EmulatedWork work = kWork;
  work.sequence_length = 8;
  EXPECT_DOUBLE_EQ(batch_seconds(profile, work), 1);
  work.batch_size = 16;
  EXPECT_DOUBLE_EQ(batch_seconds(profile, work), 2);
}

TEST_F(FleetTest, AMissingDepthIsNamed) {
  const DeviceProfile profile = find_profile(profile_file());
  EXPECT_THAT(message([&] { profile.at(kWhole, 3, 4); }),
              AllOf(HasSubstr("slowpoke"), HasSubstr("depth 3"), HasSubstr("0, 2, 4")));
  EXPECT_THAT(message([&] { profile.at(kWholeCached, 2, 4); }), HasSubstr("no values for full, cached"));
  EXPECT_THAT(message([&] { profile.at(kWhole, 5, 4); }), HasSubstr("depth 5"));
  EXPECT_THAT(message([&] { profile.at(kWhole, 1, 2); }), AllOf(HasSubstr("4 layers"), HasSubstr("scale_depth")));
  EXPECT_THROW(profile.at(kWhole, 3, 4), ConfigError);
  // scale_depth uses the relative depth: 1 of 2 is 2 of 4, 3 of 8 is between 0 and 2.
  EXPECT_DOUBLE_EQ(profile.at(kWhole, 1, 2, true).seconds, 2);
  EXPECT_DOUBLE_EQ(profile.at(kWhole, 3, 8, true).seconds, 1.75);
  EXPECT_DOUBLE_EQ(*profile.at(kWhole, 6, 8, true).memory, 1.5e9);
  EXPECT_DOUBLE_EQ(profile.at(kWhole, 3, 4, true).seconds, 3);
}

TEST_F(FleetTest, MistakesInAProfileAreNamed) {
  EXPECT_THAT(message([] { find_profile("jetson_tx3"); }), HasSubstr("jetson_tx2"));
  EXPECT_THROW(find_profile("jetson_tx3"), ConfigError);
  EXPECT_THROW(find_profile((folder_ / "missing.yaml").string()), DataError);
  EXPECT_THAT(message([&] { find_profile(file("a.yaml", "kind: experiment\nname: x\n")); }),
              HasSubstr("device_profile"));
  EXPECT_THAT(message([&] { find_profile(file("b.yaml", "name: x\n")); }), HasSubstr("at least one way"));
  EXPECT_THAT(message([&] { find_profile(file("i.yaml", "full: {seconds: [1]}\n")); }), HasSubstr("name"));
  EXPECT_THAT(message([&] { find_profile(file("c.yaml", "name: x\nfull: {depths: [0, 1], seconds: [1]}\n")); }),
              HasSubstr("2 depths, but 1 seconds"));
  EXPECT_THAT(message([&] { find_profile(file("d.yaml", "name: x\nfull: {depths: [2, 1], seconds: [1, 2]}\n")); }),
              HasSubstr("ascend"));
  EXPECT_THAT(message([&] { find_profile(file("e.yaml", "name: x\nfull: {seconds: [1, -2]}\n")); }), HasSubstr("-2"));
  EXPECT_THAT(message([&] { find_profile(file("f.yaml", "name: x\nlayers: 2\nfull: {seconds: [1, 2, 3, 4]}\n")); }),
              HasSubstr("depth 3 of a model with 2 layers"));
  EXPECT_THAT(message([&] { find_profile(file("g.yaml", "name: x\nupload: -1\nfull: {seconds: [1]}\n")); }),
              AllOf(HasSubstr("upload"), HasSubstr("-1")));
  EXPECT_THAT(message([&] { find_profile(file("h.yaml", std::string("\x00\xff\x1f full: [", 12))); }),
              HasSubstr("h.yaml"));
}

TEST_F(FleetTest, MistakesInTheConfigurationAreNamed) {
  EXPECT_THAT(mistake("{bandwidth: {kind: constant, down: -3}}"), AllOf(HasSubstr("bandwidth.down"), HasSubstr("-3")));
  EXPECT_THAT(mistake("{bandwidth: {kind: trace}}"), HasSubstr("trace"));
  EXPECT_THAT(mistake("{dropout: 1.5}"), HasSubstr("dropout"));
  EXPECT_THAT(mistake("{deadline: 0}"), HasSubstr("deadline"));
  EXPECT_THAT(mistake("{over_selection: 0.5}"), HasSubstr("over_selection"));
  EXPECT_THAT(mistake("{fleet: []}"), HasSubstr("fleet"));
  EXPECT_THAT(mistake("{fleet: [{profile: rpi_4b, share: 0}]}"), HasSubstr("share"));
  EXPECT_THAT(message([] { Fleet(config("{fleet: [{profile: rpi5}]}"), 1); }), HasSubstr("rpi_4b"));
}

TEST_F(FleetTest, ClientsHaveTheDevicesOfTheirShares) {
  const auto yaml = "{fleet: [{profile: jetson_tx2, share: 1}, {profile: rpi_4b, share: 3}]}";
  const Fleet fleet(config(yaml), 7), again(config(yaml), 7), other(config(yaml), 8);
  std::map<std::string, int> count;
  int differ = 0;
  for (ClientId c = 0; c < 4000; ++c) {
    ++count[fleet.profile(c).name];
    EXPECT_EQ(fleet.profile(c).name, again.profile(c).name);
    differ += fleet.profile(c).name != other.profile(c).name ? 1 : 0;
  }
  EXPECT_NEAR(count["rpi_4b"], 3000, 120);  // 4 standard deviations are 110
  EXPECT_GT(differ, 1000);
}

TEST_F(FleetTest, StragglersJitterAndDropouts) {
  const Fleet fleet(config("{stragglers: {share: 0.2, slowdown: 5}, dropout: 0.1}"), 3);
  int slow = 0, gone = 0, gone_twice = 0;
  for (ClientId c = 0; c < 5000; ++c) {
    const double factor = fleet.slowdown(c, 1);
    EXPECT_TRUE(factor == 1 || factor == 5);
    EXPECT_EQ(factor, fleet.slowdown(c, 2));
    slow += factor == 5 ? 1 : 0;
    gone += fleet.dropout(c, 1) ? 1 : 0;
    gone_twice += fleet.dropout(c, 1) && fleet.dropout(c, 2) ? 1 : 0;
  }
  EXPECT_NEAR(slow, 1000, 115);
  EXPECT_NEAR(gone, 500, 90);
  EXPECT_NEAR(gone_twice, 50, 30);  // independent between rounds
  const Fleet noisy(config("{stragglers: {jitter: 0.5}}"), 3);
  double sum = 0, squares = 0;
  for (ClientId c = 0; c < 5000; ++c) {
    const double log = std::log(noisy.slowdown(c, 1));
    sum += log;
    squares += log * log;
  }
  EXPECT_NEAR(sum / 5000, 0, 0.03);
  EXPECT_NEAR(std::sqrt(squares / 5000), 0.5, 0.025);
  EXPECT_NE(noisy.slowdown(1, 1), noisy.slowdown(1, 2));
  EXPECT_FALSE(Fleet(config("{}"), 3).dropout(1, 1));
  EXPECT_TRUE(Fleet(config("{dropout: 1}"), 3).dropout(1, 1));
}

TEST_F(FleetTest, BandwidthIsDrawnPerClient) {
  const Fleet fleet(config("{bandwidth: {kind: lognormal, down: 2, up: 0.5, sigma: 1}}"), 3);
  double sum = 0;
  for (ClientId c = 0; c < 5000; ++c) {
    const Cost cost = fleet.cost({c, 1, 0}, {}, {.batches = 0, .bytes_down = 1e6, .bytes_up = 0});
    sum += std::log(1 / cost.seconds);
    EXPECT_EQ(cost.seconds, fleet.cost({c, 9, 50}, {}, {.batches = 0, .bytes_down = 1e6, .bytes_up = 0}).seconds);
  }
  EXPECT_NEAR(sum / 5000, std::log(2), 0.06);
  const Fleet constant(config("{bandwidth: {kind: constant, down: 4, up: 2}}"), 3);
  EXPECT_DOUBLE_EQ(constant.cost({1, 1, 0}, {}, {.batches = 0, .bytes_down = 8e6, .bytes_up = 8e6}).seconds, 6);
}

TEST_F(FleetTest, BandwidthFromATrace) {
  const std::string path = file("trace.csv", "seconds,mbps\n0,1\n10,0\n20,4\n");  // 10 s each: 50 MB in 30 s
  const BandwidthTrace trace = BandwidthTrace::read(path);
  EXPECT_DOUBLE_EQ(trace.period(), 30);
  EXPECT_DOUBLE_EQ(trace.transfer(5e6, 0), 5);
  EXPECT_DOUBLE_EQ(trace.transfer(5e6, 8), 2 + 10 + 0.75);
  EXPECT_DOUBLE_EQ(trace.transfer(8e6, 29), 1 + 4);
  EXPECT_DOUBLE_EQ(trace.transfer(105e6, 0), 65);
  EXPECT_DOUBLE_EQ(trace.transfer(5e6, 60), 5);
  EXPECT_DOUBLE_EQ(trace.transfer(0, 15), 0);
  const Fleet fleet(config("{bandwidth: {kind: trace, shift: false, trace: '" + path + "'}}"), 3);
  // Download from second 8 on, then upload.
  const Cost cost = fleet.cost({1, 1, 8}, {}, {.batches = 0, .bytes_down = 5e6, .bytes_up = 4e6});
  EXPECT_DOUBLE_EQ(cost.seconds, 12.75 + 1);
  const Fleet shifted(config("{bandwidth: {kind: trace, trace: '" + path + "'}}"), 3);
  const ClientLoad load{.batches = 0, .bytes_down = 5e6, .bytes_up = 0};
  EXPECT_NE(shifted.cost({1, 1, 0}, {}, load).seconds, shifted.cost({2, 1, 0}, {}, load).seconds);
}

TEST_F(FleetTest, DamagedTracesAreNamedByLine) {
  const auto read = [&](const std::string& text) {
    const std::string path = file("bad.csv", text);
    EXPECT_THROW(BandwidthTrace::read(path), DataError);
    return message([&] { BandwidthTrace::read(path); });
  };
  EXPECT_THAT(read(""), HasSubstr("has no lines"));
  EXPECT_THAT(read("seconds,mbps\n"), HasSubstr("has no lines"));
  EXPECT_THAT(read("0,1\n"), HasSubstr("bad.csv:1"));
  EXPECT_THAT(read("seconds,mbps\n0,1\n10"), AllOf(HasSubstr("bad.csv:3"), HasSubstr("truncated")));
  EXPECT_THAT(read("seconds,mbps\n0,1\n10,"), AllOf(HasSubstr("bad.csv:3"), HasSubstr("truncated")));
  EXPECT_THAT(read("seconds,mbps\n0,-1\n"), AllOf(HasSubstr("bad.csv:2"), HasSubstr("negative")));
  EXPECT_THAT(read("seconds,mbps\n0,1\n0,2\n"), HasSubstr("ascend"));
  EXPECT_THAT(read("seconds,mbps\n5,1\n"), HasSubstr("second 0"));
  EXPECT_THAT(read("seconds,mbps\n0,0\n9,0\n"), HasSubstr("all speeds are 0"));
  EXPECT_THAT(read("seconds,mbps\n0,nan\n"), HasSubstr("bad.csv:2"));
  EXPECT_THROW(BandwidthTrace::read(folder_ / "nowhere.csv"), DataError);
}

}  // namespace
}  // namespace chorus::inline emulation
