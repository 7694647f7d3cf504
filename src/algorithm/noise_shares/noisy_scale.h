#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "algorithm/noise_shares/rotation.h"
#include "algorithm/privacy/mechanism.h"
#include "algorithm/secure/ring_vector.h"
#include "core/base/result.h"

namespace chorus::inline noise_shares {

enum class NoiseKind {
  kNone,
  kSkellam,          ///< sums of shares are Skellam variables again (Agarwal, Kairouz and Liu 2021)
  kDiscreteGaussian  ///< sums of shares are nearly discrete Gaussians (Kairouz, Liu and Steinke 2021)
};
std::string_view name_of(NoiseKind kind);

/// The noise that clients add themselves before their inputs are masked; the same for all of them.
struct NoiseShare {
  NoiseKind kind = NoiseKind::kNone;
  double noise = 1;         ///< standard deviation of the noise of `honest` clients / sensitivity
  double clip = 1;          ///< L2 norm that an update is clipped to
  unsigned bits = 16;       ///< of a quantised element of one client, sign included
  std::size_t clients = 0;  ///< that may be summed
  std::size_t honest = 0;   ///< clients whose shares are counted on: the fewest survivors, less those that collude

  bool on() const { return kind != NoiseKind::kNone; }
};

/// An update as integers of a ring, with a share of noise that nobody else knows. The server sees only the sum of a
/// secure aggregation, which has the noise of all survivors:
///
///     q = round(R min(1, C / |x|) x / scale) + share,   share ~ Skellam or discrete Gaussian on the integers
///
/// with R the public rotation of the round and scale such that `bits` hold an element up to six deviations. Rounding is
/// up or down at random and repeated until the norm of the integers is within the bound of Kairouz, Liu and Steinke
/// 2021, theorem 1 (conditional rounding), so the sensitivity holds for certain and costs no delta. Shares of `honest`
/// clients have the noise that is accounted for: who stays beyond them adds more, never less.
///
/// Two elements follow: 1, and (on request) a checksum as in CommonScale.
///
///     const NoisyScale scale(share, 32, values, {.seed = seed, .round = round});
///     RingVector input = scale.encode(update).value();            // different noise in every call
///     std::vector<float> mean = scale.decode(sum, survivors).value();
class NoisyScale {
 public:
  struct Shape {
    unsigned ring_bits = 32;
    unsigned capacity = 32;  ///< bits that a sum may have
    std::size_t values = 0;
    bool checksum = true;
    std::uint64_t seed = 0, round = 0;  ///< of the rotation and the checksum; public
  };
  /// ConfigError for noise that is too small for the grid, or too large for the ring.
  NoisyScale(const NoiseShare& share, const Shape& shape);

  /// Bits of a sum, sign included: the largest sum of all clients and eight deviations of noise. Beyond them a sum
  /// wraps around, which spoils it and reveals nothing.
  static double bits_needed(const NoiseShare& share, std::size_t values);

  std::size_t length() const { return shape_.values + (shape_.checksum ? 2 : 1); }
  /// Failure for values that are not finite.
  Result<RingVector> encode(std::span<const float> values) const;
  /// The mean over `clients` inputs.
  Result<std::vector<float>> decode(const RingVector& sum, std::size_t clients) const;

  /// What one sum is accounted for as: the shares of `honest` clients, and no others.
  Mechanism mechanism() const;
  double sensitivity() const { return bound_; }    ///< L2, in steps of the grid
  double deviation() const { return deviation_; }  ///< of one client's share, whole
  /// Integers without noise, for tests of the sensitivity.
  std::vector<std::int64_t> quantised(std::span<const float> values) const;

 private:
  std::uint64_t checksum(const RingVector& vector) const;

  NoiseShare share_;
  Shape shape_;
  Rotation rotation_;
  double most_;       // largest integer of one element
  double scale_;      // of one step
  double bound_;      // L2 norm of the integers
  double deviation_;  // of one share
};

}  // namespace chorus::inline noise_shares
