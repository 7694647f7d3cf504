#include "infrastructure/transport/pace/frame_pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chorus::inline transport_pace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const FramePace::Clock::time_point kStart = FramePace::Clock::time_point() + std::chrono::hours(1);
constexpr PaceLimits kLimits;  // 60 s, 16 KiB/s

/// Seconds until the sender of `bytes` every `pause` is dropped; -1: its frame of `size` bytes is whole before.
double dropped_after(std::size_t size, std::size_t bytes, milliseconds pause) {
  FramePace pace;
  auto now = kStart;
  pace.begin(now);
  for (std::size_t arrived = bytes; arrived < size; arrived += bytes) {
    pace.add(bytes, now);
    now += pause;
    if (!pace.trouble(kLimits, now).empty()) return std::chrono::duration<double>(now - kStart).count();
  }
  return -1;
}

TEST(FramePace, SlowLinksSurviveAndTricklesDoNot) {
  constexpr std::size_t kUpdate = 440'000'000, kChunk = 256U << 10U;
  EXPECT_EQ(dropped_after(kUpdate, kChunk, milliseconds(2097)), -1) << "1 Mbit/s";
  EXPECT_EQ(dropped_after(kUpdate, kChunk, milliseconds(16'000)), -1) << "16 KiB/s";
  EXPECT_NEAR(dropped_after(kUpdate, 1, milliseconds(1000)), 61, 1) << "a byte per second";
  EXPECT_NEAR(dropped_after(kUpdate, 8U << 10U, milliseconds(1000)), 120, 2) << "8 KiB/s: t = 60 + t / 2";
  EXPECT_NEAR(dropped_after(kUpdate, kChunk, milliseconds(61'000)), 61, 0.1) << "a pause over 60 s";
}

TEST(FramePace, NamesWhatIsWrong) {
  FramePace pace;
  pace.begin(kStart);
  pace.add(6100, kStart + seconds(30));
  EXPECT_EQ(pace.trouble(kLimits, kStart + seconds(60)), "");
  EXPECT_EQ(
      pace.trouble(kLimits, kStart + seconds(61)),
      "the client sends a message too slowly: 0.1 KiB/s on average, and the server needs at least 16 KiB/s; where "
      "links are slower, lower serving.slowest at the server");
  pace.add(0, kStart + seconds(80));  // nothing new
  EXPECT_EQ(pace.trouble(kLimits, kStart + seconds(91)), "the client paused for 60 s within a message");
  EXPECT_EQ(pace.trouble({.stall = 60, .slowest = 0}, kStart + seconds(90)), "") << "any pace";
}

TEST(FramePace, BeginsAnewWithEveryFrameAndExcusesTheServersOwnPauses) {
  FramePace pace;
  pace.begin(kStart);
  pace.begin(kStart + seconds(100));
  EXPECT_EQ(pace.trouble(kLimits, kStart + seconds(160)), "");
  EXPECT_THAT(pace.trouble(kLimits, kStart + seconds(161)), HasSubstr("paused"));
  pace.excuse(seconds(50));
  EXPECT_EQ(pace.trouble(kLimits, kStart + seconds(210)), "");
  EXPECT_THAT(pace.trouble(kLimits, kStart + seconds(211)), HasSubstr("paused"));
}

}  // namespace
}  // namespace chorus::inline transport_pace
