#pragma once

#include <cstdint>

namespace chorus::inline ops {

/// The hash behind dropout masks: 64 bits for four neighbouring elements, 16 each (splitmix64's finaliser).
inline constexpr std::uint64_t kMaskGolden = 0x9E3779B97F4A7C15ULL;
inline constexpr std::uint64_t kMaskFirst = 0xBF58476D1CE4E5B9ULL;
inline constexpr std::uint64_t kMaskSecond = 0x94D049BB133111EBULL;

inline std::uint64_t mask_hash(std::uint64_t key, std::uint64_t group) {
  std::uint64_t z = key + kMaskGolden * group;
  z = (z ^ (z >> 30)) * kMaskFirst;
  z = (z ^ (z >> 27)) * kMaskSecond;
  return z ^ (z >> 31);
}

}  // namespace chorus::inline ops
