#include "core/device/tensor_memory.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>

namespace chorus::inline device {
namespace {

constexpr std::int64_t kLong = 20 << 20;  // floats: 80 MB

TEST(TensorMemory, OfLongVectorsIsKeptForTheNextOnes) {
  prepare_tensor_memory();
  at::Tensor first = torch::full({kLong}, 1.0F), second = torch::full({kLong}, 2.0F);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data_ptr()) % 64, 0U);
  const void* before = second.data_ptr();
  second.reset();
  const at::Tensor half = torch::full({kLong / 2}, 4.0F), shorter = torch::full({kLong / 100 * 95}, 3.0F);
  EXPECT_NE(half.data_ptr(), before);
  EXPECT_EQ(shorter.data_ptr(), before) << "one that is hardly longer will do";
  EXPECT_EQ(first.min().item<float>(), 1.0F) << "what is in use stays as it is";
  EXPECT_EQ(shorter.max().item<float>(), 3.0F);
}

TEST(TensorMemory, BeginsWithALargePageFromTwoOfThemOn) {
  prepare_tensor_memory();
  constexpr std::uintptr_t kPage = 2 << 20;
  const at::Tensor x = torch::full({2 * kPage / sizeof(float)}, 1.0F);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data_ptr()) % kPage, 0U);
  EXPECT_EQ(x.min().item<float>(), 1.0F);
}

TEST(TensorMemory, IsGivenBackByItsAddress) {
  prepare_tensor_memory();
  c10::Allocator& memory = *c10::GetCPUAllocator();
  for (const std::size_t bytes :
       {std::size_t{100}, std::size_t{3} << 20, (std::size_t{4} << 20) + 1, std::size_t{40} << 20}) {
    auto* numbers = static_cast<char*>(memory.raw_allocate(bytes));
    numbers[0] = numbers[bytes - 1] = 1;
    memory.raw_deallocate(numbers);
  }
  memory.raw_deallocate(nullptr);
}

TEST(TensorMemory, ReportsExhaustedMemory) {
  prepare_tensor_memory();
  EXPECT_THROW(torch::empty({std::int64_t{1} << 50}, at::kFloat), c10::Error);
}

}  // namespace
}  // namespace chorus::inline device
