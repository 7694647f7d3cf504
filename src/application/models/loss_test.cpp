#include "application/models/loss.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

namespace chorus {
namespace {

void check_cross_entropy(at::Device device, std::int64_t classes) {
  const at::Tensor logits = (torch::randn({3, 40, classes}) * 4).to(device).requires_grad_();
  at::Tensor labels = torch::randint(classes, {3, 40}, at::kLong).to(device);
  labels.narrow(1, 5, 9).fill_(kIgnore);
  labels[2].fill_(kIgnore);  // a client without an answer
  const at::Tensor fast = cross_entropy(logits, labels), plain = cross_entropy_reference(logits, labels);
  EXPECT_TRUE(torch::allclose(fast, plain, 1e-5, 1e-6));
  EXPECT_EQ(fast[2].item<double>(), 0);
  const at::Tensor weights = torch::tensor({0.5F, 2.0F, 1.0F}).to(device);
  const auto got = torch::autograd::grad({(fast * weights).sum()}, {logits});
  const auto wanted = torch::autograd::grad({(plain * weights).sum()}, {logits});
  EXPECT_TRUE(torch::allclose(got[0], wanted[0], 1e-4, 1e-7));
}

TEST(CrossEntropy, RowsEqualTheReferenceWithTheirGradients) {
  torch::manual_seed(5);
  for (const std::int64_t classes : {7, 1003}) check_cross_entropy(at::kCPU, classes);
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here: compared on the CPU alone";
  for (const std::int64_t classes : {7, 1003}) check_cross_entropy({at::kCUDA, 0}, classes);
}

TEST(CrossEntropy, WhatIsNoNumberStaysWithItsClient) {
  at::Tensor logits = torch::randn({2, 3, 50});
  logits[0][1][7] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor loss = cross_entropy(logits, torch::ones({2, 3}, at::kLong));
  EXPECT_TRUE(std::isnan(loss[0].item<float>()));
  EXPECT_TRUE(std::isfinite(loss[1].item<float>()));
  const at::Tensor far = torch::full({1, 1, 4}, -1e30F);
  EXPECT_NEAR(cross_entropy(far, torch::zeros({1, 1}, at::kLong)).item<double>(), std::log(4.0), 1e-6);
}

}  // namespace
}  // namespace chorus
