#include "core/device/host_copy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace chorus::inline device {
namespace {

TEST(HostCopy, GivesTheSameElements) {
  const at::Tensor x = at::arange(12, at::kFloat).view({3, 4});
  EXPECT_TRUE(HostCopy(x).wait().equal(x));
  EXPECT_EQ(HostCopy(x).wait().data_ptr(), x.data_ptr()) << "what is on the CPU is not copied";
}

TEST(HostCopy, ArrivesFromAGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a GPU";
  const at::Tensor x = at::rand({1000, 17}, at::TensorOptions(at::kCUDA).dtype(at::kFloat));
  const HostCopy copy(x * 2);
  const at::Tensor later = x.mm(x.t());  // queued behind the copy
  EXPECT_TRUE(copy.wait().equal((x * 2).cpu()));
  EXPECT_TRUE(copy.wait().is_cpu());
}

}  // namespace
}  // namespace chorus::inline device
