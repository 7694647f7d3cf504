#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace chorus::inline tensor {

/// bfloat16: the first 16 bits of a float32, rounded to nearest, ties to even. Bytes are little-endian and may be
/// unaligned.
void to_bfloat16(std::span<const float> x, std::byte* out);
void from_bfloat16(const std::byte* in, std::span<float> x);

/// `to` [A, P] = `from` [A, P], rounded; rows may have a stride.
void put_as_bfloat16(const at::Tensor& to, const at::Tensor& from);
/// x rounded; x itself if it is bfloat16.
at::Tensor as_bfloat16(const at::Tensor& x);

}  // namespace chorus::inline tensor
