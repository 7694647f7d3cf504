#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace chorus {

/// A stable 128-bit identity of some bytes: the same on every machine and in every version. MurmurHash3_x64_128
/// (A. Appleby, public domain), which no library we keep offers. Not cryptographic: it keys caches, it proves nothing.
struct Fingerprint {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool operator==(const Fingerprint&) const = default;
  /// 32 hexadecimal digits, fit for a file name.
  std::string hex() const;
};

/// The fingerprint of `bytes`, begun from `seed` (chain calls: `f = fingerprint(more, f)`; pieces are not confused,
/// each one's length enters).
Fingerprint fingerprint(std::string_view bytes, Fingerprint seed = {});

}  // namespace chorus
