#include "core/device/gpu_kernel.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace chorus {
namespace {

TEST(GpuKernel, RefusesAnotherNumberOfArguments) {
  const GpuKernel kernel("twice", "extern \"C\" __global__ void twice(float* x, long long n) {}");
  try {
    kernel.launch({}, static_cast<float*>(nullptr));
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("takes 2 arguments, not 1"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace chorus
