#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/rng.h"

namespace chorus::inline noise_shares {

/// A random rotation that everybody can repeat: it spreads a vector evenly over its coordinates, so that a common scale
/// of few bits suits all of them (Kairouz, Liu and Steinke 2021, section 4). Signs flip at random, then a Hadamard
/// transform mixes the first 2^k elements; the same once more for the last 2^k, with 2^k the largest power that fits.
/// The two overlap, so everything is mixed, nothing is padded, and the map is orthogonal. O(n log n).
///
///     const Rotation rotation(values.size(), {.seed = seed, .purpose = "rotation", .round = round});
///     rotation.forward(values);  rotation.backward(values);   // as before, up to rounding
class Rotation {
 public:
  Rotation(std::size_t size, const StreamKey& key);

  void forward(std::span<double> values) const;
  void backward(std::span<double> values) const;
  /// 2^k: an element of a rotated vector of norm 1 has a standard deviation of at most 1 / sqrt(block).
  std::size_t block() const { return block_; }

 private:
  void flip(std::span<double> values, std::uint64_t pass) const;

  std::size_t size_, block_;
  StreamKey key_;
};

}  // namespace chorus::inline noise_shares
