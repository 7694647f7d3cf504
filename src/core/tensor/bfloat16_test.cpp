#include "core/tensor/bfloat16.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <bit>
#include <limits>

namespace chorus::inline tensor {
namespace {

// Every exponent, ties, NaN and infinities, as LibTorch rounds them.
TEST(Bfloat16, IsThatOfLibTorch) {
  std::vector<float> numbers{0,
                             -0.0F,
                             std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::max()};
  for (std::uint64_t bits = 0; bits < (1ULL << 32); bits += 4093) {
    numbers.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    numbers.push_back(std::bit_cast<float>((static_cast<std::uint32_t>(bits) & ~0xFFFFU) | 0x8000U));
  }
  const at::Tensor x = torch::tensor(numbers);
  const at::Tensor expected = x.to(at::kBFloat16), got = as_bfloat16(x);
  ASSERT_EQ(got.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(got.isnan().equal(expected.isnan()));
  const auto bits = [](const at::Tensor& of) { return of.view(at::kShort).masked_fill(of.isnan(), 0); };
  EXPECT_TRUE(bits(got).equal(bits(expected)));
  std::vector<float> back(numbers.size());
  from_bfloat16(static_cast<const std::byte*>(got.data_ptr()), back);
  EXPECT_TRUE(torch::tensor(back).nan_to_num(7).equal(expected.to(at::kFloat).nan_to_num(7)));
}

TEST(Bfloat16, GoesIntoPartsOfRowsAndNoFurther) {
  const at::Tensor from = torch::randn({3, 70000}), to = torch::zeros({3, 70000}, at::kBFloat16);
  put_as_bfloat16(to.narrow(1, 2, 69990), from.narrow(1, 7, 69990));
  EXPECT_TRUE(to.narrow(1, 2, 69990).equal(from.narrow(1, 7, 69990).to(at::kBFloat16)));
  EXPECT_EQ(to.narrow(1, 0, 2).abs().max().item<double>(), 0);
  EXPECT_EQ(to.narrow(1, 69992, 8).abs().max().item<double>(), 0);
  EXPECT_TRUE(as_bfloat16(from.t()).equal(from.t().to(at::kBFloat16)));
  const at::Tensor half = to.clone();
  EXPECT_TRUE(as_bfloat16(half).is_same(half));
  EXPECT_EQ(as_bfloat16(torch::empty({0, 4})).numel(), 0);
}

}  // namespace
}  // namespace chorus::inline tensor
