#include "core/device/tensor_snapshot.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

namespace chorus::inline device {
namespace {

void keeps_what_it_saw(at::Device device) {
  at::Tensor tensor = at::arange(1 << 20, at::TensorOptions(device).dtype(at::kFloat));
  const at::Tensor expected = tensor.to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  const TensorSnapshot snapshot(tensor);
  at::Tensor found;
  std::thread reader([&] { found = snapshot.on_host(); });
  for (int i = 0; i < 10; ++i) tensor.add_(1);
  reader.join();
  EXPECT_TRUE(found.is_cpu());
  EXPECT_TRUE(at::equal(found, expected));
  EXPECT_FALSE(at::equal(tensor.to(at::kCPU), expected));
}

TEST(TensorSnapshot, KeepsWhatItSaw) { keeps_what_it_saw(at::kCPU); }

TEST(TensorSnapshot, KeepsWhatItSawOnAGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no GPU";
  keeps_what_it_saw(at::Device(at::kCUDA, 0));
}

TEST(TensorSnapshot, IsContiguousWhateverTheTensor) {
  const at::Tensor tensor = at::arange(12).view({3, 4}).t();
  const at::Tensor found = TensorSnapshot(tensor).on_host();
  EXPECT_TRUE(found.is_contiguous());
  EXPECT_TRUE(at::equal(found, tensor));
}

}  // namespace
}  // namespace chorus::inline device
