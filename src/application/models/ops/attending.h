#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace chorus::inline ops {

/// Queries, keys and values of attention: packed rows [C, T, H], or column ranges of wider rows.
struct Attending {
  at::Tensor q, k, v;

  /// Views of rows [C, T, 3 H].
  static Attending parts(const at::Tensor& qkv) {
    const std::int64_t width = qkv.size(2) / 3;
    return {qkv.narrow(2, 0, width), qkv.narrow(2, width, width), qkv.narrow(2, 2 * width, width)};
  }
};

}  // namespace chorus::inline ops
