#pragma once

#include <cstdint>

namespace chorus {

/// A product of matrices in plain memory, without LibTorch's cost of a call:
///
///     MatrixProduct{.m = 16, .n = 64, .k = 32}({a, 32}, {b, 64}, c, 64);      // c [16, 64] = a [16, 32] b [32, 64]
///
/// a is [m, k], or [k, m] and turned, and b likewise; rows are `apart`. Uses LibTorch's threads.
struct MatrixProduct {
  std::int64_t m, n, k;
  float scale = 1;
  bool turn_a = false, turn_b = false;
  bool add = false;  ///< to what c holds

  struct Rows {
    const float* data;
    std::int64_t apart;
  };
  void operator()(Rows a, Rows b, float* c, std::int64_t apart) const;

  /// Whether this program was built with a BLAS.
  static bool possible();
};

}  // namespace chorus
