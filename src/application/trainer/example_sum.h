#pragma once

#include <torch/types.h>

#include <cstdint>

namespace chorus::inline trainer {

/// The sum of the gradients of single examples, each clipped to an L2 norm of at most `clip`, plus noise. The
/// sensitivity holds exactly: a clipped gradient becomes integers on a grid (rounded towards zero, so its norm cannot
/// grow), integers are added without rounding errors, and the noise is integers, too (core/ports/example_guard.h). The
/// unit of the grid is clip * noise / 2^24. A gradient that is not finite counts as zero.
///
///     ExampleSum sum(parameters, device, {.clip = 1, .noise = 1.1});
///     sum.add(gradients);                                  // [n, P]; overwrites them
///     at::Tensor gradient = sum.release(noise) / batch;    // [P]
class ExampleSum {
 public:
  struct Bound {
    double clip = 1;
    double noise = 1;  ///< standard deviation / clip
  };
  ExampleSum(std::int64_t size, at::Device device, const Bound& bound);

  void add(const at::Tensor& gradients);
  /// The sum with this noise, int64 [P], as float32; the next sum begins.
  at::Tensor release(const at::Tensor& noise);

  /// The integers so far, without noise: never to be released. For tests.
  const at::Tensor& total() const { return sum_; }

 private:
  void add_here(const at::Tensor& gradients);
  void add_there(const at::Tensor& gradients);

  at::Tensor sum_;  // int64 [P]
  Bound bound_;
  double units_;  // of the grid in `clip`
};

}  // namespace chorus::inline trainer
