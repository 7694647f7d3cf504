#include "core/device/tf32.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace chorus::inline device {
namespace {

TEST(Tf32Matmuls, AreAllowedWithinTheScopeOnly) {
  ASSERT_FALSE(at::globalContext().allowTF32CuBLAS());
  {
    const Tf32Matmuls off(false);
    EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
    const Tf32Matmuls on(true);
    EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
    { const Tf32Matmuls within(true); }
    EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  }
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
}

}  // namespace
}  // namespace chorus::inline device
