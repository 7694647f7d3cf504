#include "infrastructure/transport/pace/frame_pace.h"

#include <fmt/format.h>

namespace chorus::inline transport_pace {
namespace {

constexpr double kKibi = 1U << 10U;

double seconds_of(FramePace::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void FramePace::begin(Clock::time_point now) {
  begun_ = newest_ = now;
  arrived_ = 0;
}

void FramePace::add(std::size_t bytes, Clock::time_point now) {
  if (bytes > 0) newest_ = now;
  arrived_ += bytes;
}

void FramePace::excuse(Clock::duration pause) {
  begun_ += pause;
  newest_ += pause;
}

std::string FramePace::trouble(const PaceLimits& limits, Clock::time_point now) const {
  if (seconds_of(now - newest_) > limits.stall)
    return fmt::format("the client paused for {:g} s within a message", limits.stall);
  const double elapsed = seconds_of(now - begun_), arrived = static_cast<double>(arrived_);
  if (limits.slowest <= 0 || elapsed <= limits.stall + arrived / limits.slowest) return "";
  return fmt::format(
      "the client sends a message too slowly: {:.1f} KiB/s on average, and the server needs at least {:g} KiB/s; where "
      "links are slower, lower serving.slowest at the server",
      arrived / elapsed / kKibi, limits.slowest / kKibi);
}

}  // namespace chorus::inline transport_pace
