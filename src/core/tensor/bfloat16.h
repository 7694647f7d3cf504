#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace chorus::inline tensor {

/// bfloat16: float32's first 16 bits, rounded to the nearest, of two as near the even one. As bytes little-endian, at
/// any place.
void to_bfloat16(std::span<const float> x, std::byte* out);
void from_bfloat16(const std::byte* in, std::span<float> x);

/// `to` [A, P] = `from` [A, P], rounded; both may be parts of longer rows.
void put_as_bfloat16(const at::Tensor& to, const at::Tensor& from);
/// x rounded; x itself where it is bfloat16.
at::Tensor as_bfloat16(const at::Tensor& x);

}  // namespace chorus::inline tensor
