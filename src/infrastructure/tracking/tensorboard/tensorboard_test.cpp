#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "core/files/files.h"
#include "infrastructure/tracking/run_folder.h"
#include "infrastructure/tracking/tensorboard/crc32c.h"
#include "infrastructure/tracking/tensorboard/tensorboard_tracker.h"

namespace chorus::inline tracking_tensorboard {
namespace {

namespace fs = std::filesystem;

class TensorBoard : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("chorus_tensorboard_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The one event file of a run.
  static std::string events_of(const fs::path& run) {
    std::string bytes;
    int files = 0;
    for (const auto& file : fs::directory_iterator(run / "tensorboard")) {
      bytes = read_file(file.path());
      ++files;
    }
    EXPECT_EQ(files, 1);
    return bytes;
  }

  fs::path folder_;
};

const std::vector<Event> kEvents = {
    {"run_started", 0, {{"clients", 10}}, {{"algorithm", "fedavg"}}, 1700000000.25},
    {"round", 1, {{"loss", 1.25}, {"examples", 640}}, {}, 1700000000.5},
    {"round", 2, {{"loss", 0.1}, {"examples", 320}, {"norm", std::nan("")}}, {}, 1700000001.5},
    {"evaluation", 2, {{"accuracy", 0.875}}, {{"split", "test"}}, 1700000002.0},
    {"best", 2, {{"accuracy", 0.875}}, {}, 1700000002.5},
    {"evaluation", 100000, {{"f1", -0.5}}, {{"split", "évaluation"}}, 1700000003.0},
};

// RFC 3720, B.4.
TEST(Crc32c, MatchesTheStandard) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
}

TEST_F(TensorBoard, WritesTheBytesOfTensorBoardsOwnWriter) {
  {
    TensorBoardTracker tracker(folder_);
    for (const Event& event : kEvents) tracker.record(event);
  }
  EXPECT_EQ(events_of(folder_), read_file(CHORUS_SOURCE_DIR "/tests/golden/scalars.tfevents"));
}

TEST_F(TensorBoard, AResumedRunHasTheEventsOfOneThatWasNot) {
  RunFolder run = RunFolder::create({.folder = folder_ / "run"});
  {
    auto tracker = run.tracker(0);
    for (std::size_t i = 0; i < 3; ++i) tracker->record(kEvents[i]);
  }
  {
    auto tracker = run.tracker(1);
    for (std::size_t i = 2; i < kEvents.size(); ++i) tracker->record(kEvents[i]);
  }
  EXPECT_EQ(events_of(run.path()), read_file(CHORUS_SOURCE_DIR "/tests/golden/scalars.tfevents"));
}

TEST_F(TensorBoard, IsOptional) {
  RunFolder run = RunFolder::create({.folder = folder_ / "run"});
  run.tracker(0, std::vector<std::string>{})->record(kEvents[1]);
  EXPECT_FALSE(fs::exists(run.path() / "tensorboard"));
  EXPECT_EQ(Trackers::names(), std::vector<std::string>{"tensorboard"});
}

}  // namespace
}  // namespace chorus::inline tracking_tensorboard
