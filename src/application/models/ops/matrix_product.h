#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace chorus::inline ops {

/// A matmul on plain memory, without LibTorch's overhead per call:
///
///     MatrixProduct{.m = 16, .n = 64, .k = 32}({a, 32}, {b, 64}, c, 64);      // c [16, 64] = a [16, 32] b [32, 64]
///
/// a is [m, k], or [k, m] if transposed, b is [k, n], or [n, k] if transposed. `stride` is the distance between rows.
/// Uses LibTorch's threads.
struct MatrixProduct {
  std::int64_t m, n, k;
  float scale = 1;
  bool transpose_a = false, transpose_b = false;
  bool add = false;  ///< c += a b instead of c = a b

  template <typename Number>
  struct RowsOf {
    const Number* data;
    std::int64_t stride;
  };
  using Rows = RowsOf<float>;
  using BFloat16Rows = RowsOf<at::BFloat16>;
  void operator()(Rows a, Rows b, float* c, std::int64_t stride) const;
  /// Accumulates in float32; `scale` must be 1.
  void operator()(BFloat16Rows a, BFloat16Rows b, float* c, std::int64_t stride) const;

  /// Rows of a float32 or bfloat16 tensor from element `begin`; both operands have the same type.
  struct TensorRows {
    const at::Tensor& tensor;
    std::int64_t begin, stride;
  };
  void operator()(TensorRows a, TensorRows b, float* c, std::int64_t stride) const;

  /// Whether this program was built with a BLAS.
  static bool possible();
  /// Whether this processor multiplies bfloat16 faster than float32.
  static bool bfloat16_possible();
};

}  // namespace chorus::inline ops
