#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace chorus::inline transport_pace {

/// What a server expects of the sender of a frame.
struct PaceLimits {
  double stall = 60;            ///< seconds without a new byte
  double slowest = 16U << 10U;  ///< bytes per second on average, after the first `stall` seconds; 0: any
};

/// How fast the bytes of an unfinished frame arrive. Its space is taken from the first chunk on, so a sender that goes
/// on byte by byte would keep others waiting for ever. A frame of S bytes must be whole within stall + S / slowest
/// seconds, and at any time within it
///
///     elapsed <= stall + arrived / slowest
///
/// so a fast start pays for a slow stretch. Only new bytes of the frame count; acknowledgements and repeated chunks do
/// not. Time in which the server itself does not read is excused. The caller provides synchronization.
///
///     pace.begin();                                    // the first chunk is here, and there is space for the rest
///     pace.add(chunk.size());
///     if (const auto why = pace.trouble(limits); !why.empty()) drop(peer, why);
class FramePace {
 public:
  using Clock = std::chrono::steady_clock;

  void begin(Clock::time_point now = Clock::now());
  void add(std::size_t bytes, Clock::time_point now = Clock::now());
  /// This end did not read for so long.
  void excuse(Clock::duration pause);
  /// Why the sender must be dropped, for the logs of both ends; empty: it is fast enough.
  std::string trouble(const PaceLimits& limits, Clock::time_point now = Clock::now()) const;

 private:
  Clock::time_point begun_ = {}, newest_ = {};
  std::size_t arrived_ = 0;
};

}  // namespace chorus::inline transport_pace
