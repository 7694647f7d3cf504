#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace chorus::inline base {

/// A stable 128-bit hash: the same on every machine and in every version. MurmurHash3_x64_128 (A. Appleby, public
/// domain), which none of our libraries offers. Not cryptographic: use it as a cache key, not as proof of identity.
struct Fingerprint {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool operator==(const Fingerprint&) const = default;
  /// 32 hexadecimal digits, usable as a file name.
  std::string hex() const;
};

/// Hashes `bytes` starting from `seed`. Chain calls with `f = fingerprint(more, f)`; lengths enter the hash, so pieces
/// cannot be confused.
Fingerprint fingerprint(std::string_view bytes, Fingerprint seed = {});

}  // namespace chorus::inline base
