#include "core/tensor/bfloat16.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdint>

#include "core/base/best_instructions.h"

namespace chorus::inline tensor {
namespace {

CHORUS_FAST_LOOPS

// May be unaligned.
struct __attribute__((packed, may_alias)) Bits {
  std::uint16_t bits;
};

CHORUS_BEST_INSTRUCTIONS
void round_elements(const float* __restrict x, Bits* __restrict out, std::size_t n) {
  constexpr std::uint32_t kInfinity = 0x7F800000U, kNoNumber = 0x7FC0U;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x[i]);
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    out[i].bits = static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > kInfinity ? kNoNumber : rounded);
  }
}

CHORUS_BEST_INSTRUCTIONS
void widen_elements(const Bits* __restrict in, float* __restrict x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(in[i].bits) << 16);
}

CHORUS_END_OF_FAST_LOOPS

}  // namespace

void to_bfloat16(std::span<const float> x, std::byte* out) {
  round_elements(x.data(), reinterpret_cast<Bits*>(out), x.size());
}

void from_bfloat16(const std::byte* in, std::span<float> x) {
  widen_elements(reinterpret_cast<const Bits*>(in), x.data(), x.size());
}

void put_as_bfloat16(const at::Tensor& to, const at::Tensor& from) {
  if (!from.is_cpu() || from.scalar_type() != at::kFloat || from.stride(1) != 1 || to.stride(1) != 1) {
    at::Tensor(to).copy_(from);
    return;
  }
  constexpr std::int64_t kGrain = 1 << 15;
  for (std::int64_t row = 0; row < from.size(0); ++row) {
    const float* elements = from.data_ptr<float>() + row * from.stride(0);
    auto* rounded = reinterpret_cast<std::byte*>(to.data_ptr<at::BFloat16>() + row * to.stride(0));
    at::parallel_for(0, from.size(1), kGrain, [&](std::int64_t begin, std::int64_t end) {
      to_bfloat16({elements + begin, static_cast<std::size_t>(end - begin)}, rounded + 2 * begin);
    });
  }
}

at::Tensor as_bfloat16(const at::Tensor& x) {
  if (!x.is_cpu() || x.scalar_type() != at::kFloat || !x.is_contiguous() || x.numel() == 0) return x.to(at::kBFloat16);
  const at::Tensor result = at::empty_like(x, x.options().dtype(at::kBFloat16));
  put_as_bfloat16(result.view({1, -1}), x.view({1, -1}));
  return result;
}

}  // namespace chorus::inline tensor
