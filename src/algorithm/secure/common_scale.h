#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithm/secure/ring_vector.h"
#include "core/base/result.h"
#include "core/base/rng.h"

namespace chorus::inline secure {

/// How values become integers that can be summed in a ring; the same for every client.
struct ScaleSettings {
  double clip = 1;                ///< largest absolute value of an element; larger ones are cut off
  double norm = 0;                ///< largest L2 norm, scaled down to before; 0: none
  unsigned bits = 16;             ///< of a quantised element, sign included
  std::uint64_t most_weight = 1;  ///< largest weight of a client; 1: all count the same
  std::size_t clients = 0;        ///< that may be summed
  bool checksum = true;           ///< a last element that shows whether a sum was damaged
  unsigned capacity = 0;          ///< bits that a sum may have, sign included; 0: those of the ring
};

/// A weighted mean through a ring sum: element i of a client is w q_i with q_i = round(x_i / scale), rounded up or down
/// at random so that it is right on average, scale = clip / (2^(bits - 1) - 1). Two elements follow: the weight w, and
/// (on request) a checksum sum_i r_i y_i with public odd r_i, which is linear and thus also holds for the sum. A
/// negative value is its two's complement.
///
///     CommonScale scale(settings, 32, 100'000, seed);      // ConfigError when a sum could overflow
///     Result<RingVector> input = scale.encode(update, 1, key);
///     Result<std::vector<float>> mean = scale.decode(sum, survivors);
class CommonScale {
 public:
  CommonScale(const ScaleSettings& settings, unsigned ring_bits, std::size_t values, std::uint64_t seed);

  /// Bits of the smaller ring that is wide enough: 32 or 64. ConfigError when neither is.
  static unsigned ring_bits_for(const ScaleSettings& settings);
  /// Bits of any sum, sign included.
  static double bits_needed(const ScaleSettings& settings);
  /// Elements of an encoded vector.
  std::size_t length() const { return values_ + (settings_.checksum ? 2 : 1); }

  /// The factor that scales values down to the largest norm; 1 where they are within it.
  double shrink(std::span<const float> values) const;
  /// Failure for values that are not finite or a weight out of range.
  Result<RingVector> encode(std::span<const float> values, std::uint64_t weight, const StreamKey& key) const;
  /// The weighted mean over `clients` inputs. Failure when the checksum is wrong, or an element or the weight is not
  /// possible for that many.
  Result<std::vector<float>> decode(const RingVector& sum, std::size_t clients) const;
  /// The sum of the weights, after it was decoded.
  std::uint64_t weight_of(const RingVector& sum) const { return sum.at(values_); }

 private:
  std::uint64_t checksum(const RingVector& vector) const;

  ScaleSettings settings_;
  unsigned ring_bits_;
  std::size_t values_;
  std::uint64_t seed_;
  double most_;   // largest q
  double scale_;  // of one step
};

}  // namespace chorus::inline secure
