#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace chorus::inline transport_pace {

inline constexpr std::size_t kMostFrameBytes = 2047U << 20U;  ///< that any limit may allow
inline constexpr std::size_t kSmallFrameBytes = 256U << 10U;  ///< a server counts the space of larger ones only

/// What both ends say of a frame that is longer than allowed. The server's limit can be set, a client's is the largest.
inline std::string over_limit(std::uint64_t bytes, std::size_t limit) {
  constexpr double kMebi = 1U << 20U;
  return fmt::format("a message of {:.1f} MiB is over the limit of {:.1f} MiB; {}", static_cast<double>(bytes) / kMebi,
                     static_cast<double>(limit) / kMebi,
                     limit < kMostFrameBytes
                         ? "raise serving.frame_limit at the server, or send less (compression, lora)"
                         : "none can be longer: send less (compression, lora)");
}

}  // namespace chorus::inline transport_pace
