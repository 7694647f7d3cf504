#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace chorus::inline ops {

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

  template <typename Number>
  struct RowsOf {
    const Number* data;
    std::int64_t apart;
  };
  using Rows = RowsOf<float>;
  using HalfRows = RowsOf<at::BFloat16>;
  void operator()(Rows a, Rows b, float* c, std::int64_t apart) const;
  /// Sums in float32; takes no scale.
  void operator()(HalfRows a, HalfRows b, float* c, std::int64_t apart) const;

  /// Rows of a tensor of float32 or bfloat16, from its number `begin`; both factors are of one type.
  struct TensorRows {
    const at::Tensor& tensor;
    std::int64_t begin, apart;
  };
  void operator()(TensorRows a, TensorRows b, float* c, std::int64_t apart) const;

  /// Whether this program was built with a BLAS.
  static bool possible();
  /// Whether this processor multiplies bfloat16 faster than float32.
  static bool halves_possible();
};

}  // namespace chorus::inline ops
