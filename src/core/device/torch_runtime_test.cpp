#include "core/device/torch_runtime.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace chorus::inline device {
namespace {

TEST(TorchRuntime, KnowsExhaustedMemoryByTypeOrText) {
  EXPECT_TRUE(is_out_of_memory(c10::OutOfMemoryError({__func__, __FILE__, 0}, "CUDA out of memory")));
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes")));
  // As seen on a GPU that other programs had filled.
  EXPECT_TRUE(is_out_of_memory(std::runtime_error("CUDA error: out of memory")));
  EXPECT_TRUE(is_out_of_memory(
      std::runtime_error("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")));
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("CUDA error: an illegal memory access was encountered")));
}

TEST(TorchRuntime, FirstLineLeavesOutStackTraces) {
  EXPECT_EQ(first_line(std::runtime_error("CUDA error: out of memory\nframe #0: c10::Error\n")),
            "CUDA error: out of memory");
  EXPECT_EQ(first_line(std::runtime_error("one sentence")), "one sentence");
}

}  // namespace
}  // namespace chorus::inline device
