#include "core/device/backend.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "core/device/kernels.h"

namespace chorus::inline device {
namespace {

TEST(Backend, IsWhatTheDeviceSupportsAndTheProgramWants) {
  const at::Tensor x = torch::zeros({2});
  EXPECT_EQ(backend_for(x, {.cpu = true, .gpu = true}), Backend::kCpu);
  EXPECT_EQ(backend_for(x, {.cpu = false, .gpu = true}), Backend::kReference);
  use_fast_kernels(false);
  EXPECT_EQ(backend_for(x, {.cpu = true, .gpu = true}), Backend::kReference);
  use_fast_kernels(true);
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here: chosen for a CPU only";
  const at::Tensor there = x.to(at::kCUDA);
  EXPECT_EQ(backend_for(there, {.cpu = true, .gpu = true}), Backend::kGpu);
  EXPECT_EQ(backend_for(there, {.cpu = true}), Backend::kReference);
}

TEST(Backend, KnowsTheTypesOfOurKernels) {
  EXPECT_TRUE(is_float(torch::zeros({1})));
  EXPECT_FALSE(is_float(torch::zeros({1}, at::kDouble)));
  EXPECT_TRUE(is_float_or_bfloat16(torch::zeros({1}, at::kBFloat16)));
  EXPECT_FALSE(is_float_or_bfloat16(torch::zeros({1}, at::kHalf)));
}

}  // namespace
}  // namespace chorus::inline device
