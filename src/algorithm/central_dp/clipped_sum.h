#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace chorus::inline central_dp {

/// A sum of vectors of which each has an L2 norm of at most `clip`, plus Gaussian noise, with a sensitivity that holds
/// exactly: every vector becomes integers on a grid (rounded towards zero, so its norm cannot grow), integers are added
/// without rounding errors, and the noise is drawn on the integers (noise/wide_gaussian.h). The grid is such that the
/// noise has a standard deviation of 2^24 units, finer than a float. Its probabilities differ from those of a rounded
/// Gaussian by less than 2^-48 of their values, so it is accounted for as a Gaussian.
///
///     ClippedSum sum(parameters, device, {.clip = 0.5, .noise = 1.1});
///     for (const at::Tensor& update : updates) sum.add(update);
///     const at::Tensor total = sum.release();
class ClippedSum {
 public:
  struct Bound {
    double clip = 1;
    double noise = 1;  ///< standard deviation / clip
  };
  ClippedSum(std::int64_t size, at::Device device, Bound bound);

  /// Returns the norm before clipping.
  double add(const at::Tensor& x);
  /// The sum with fresh noise, float32. Call it once: the noise of two calls would average out.
  at::Tensor release();
  /// The integers without noise, for a mechanism that adds its own (correlated_noise.h). Instead of `release`.
  at::Tensor take();

  /// Noise for a vector of integers: int64 [size], standard deviation 2^24, on the CPU.
  static at::Tensor draw(std::int64_t size);
  /// Units of the grid per `clip`.
  static double units_of(double noise);

 private:
  at::Tensor sum_;  // int64
  Bound bound_;
  double units_;  // of the grid in `clip`
  bool released_ = false;
};

}  // namespace chorus::inline central_dp
