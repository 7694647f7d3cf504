#include "application/models/loss.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "application/models/ops/layers.h"
#include "application/models/ops/matrix_product.h"
#include "application/models/ops/table_loss.h"

namespace chorus::inline models {
namespace {

void check_cross_entropy(at::Device device, std::int64_t classes) {
  const at::Tensor logits = (torch::randn({3, 40, classes}) * 4).to(device).requires_grad_();
  at::Tensor labels = torch::randint(classes, {3, 40}, at::kLong).to(device);
  labels.narrow(1, 5, 9).fill_(kIgnore);
  labels[2].fill_(kIgnore);  // a client without labels
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

TEST(CrossEntropy, NanStaysWithItsClient) {
  at::Tensor logits = torch::randn({2, 3, 50});
  logits[0][1][7] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor loss = cross_entropy(logits, torch::ones({2, 3}, at::kLong));
  EXPECT_TRUE(std::isnan(loss[0].item<float>()));
  EXPECT_TRUE(std::isfinite(loss[1].item<float>()));
  const at::Tensor far = torch::full({1, 1, 4}, -1e30F);
  EXPECT_NEAR(cross_entropy(far, torch::zeros({1, 1}, at::kLong)).item<double>(), std::log(4.0), 1e-6);
}

// Three clients, one without labels; the loss and its gradients, including the head.
void check_table_loss(bool with_bias, bool frozen, bool written, bool bfloat16 = false) {
  Layout layout;
  constexpr std::int64_t kWords = 2503;
  const ParamId table = layout.add("table", {kWords, 24}, Init::normal(0.3));
  const ParamId bias = with_bias ? layout.add("bias", {kWords}, Init::normal(0.5)) : ParamId{};
  layout.mark_matmul_weight(table);
  if (frozen) layout.freeze([](const ParamSpec& spec) { return spec.name == "table"; });
  const auto run = [&](bool fused, at::Tensor& dx, at::Tensor& gradients) {
    Params params(layout, {.clients = 3, .gradients = true});
    params.initialise(3);
    torch::manual_seed(5);
    params.values().add_(torch::randn_like(params.values()) * 0.1);
    if (bfloat16 && fused) params = params.with_shadow();
    const at::Tensor x = torch::randn({3, 40, 24}).requires_grad_();
    at::Tensor labels = torch::randint(kWords, {3, 40}, at::kLong);
    labels.narrow(1, 5, 9).fill_(kIgnore);
    labels[2].fill_(kIgnore);
    if (written) {
      params.grads().fill_(7);  // contents before the step
      params.writes().begin();
    }
    at::Tensor loss;
    if (fused) {
      loss = table_loss(params, {table, bias}, x, labels, kIgnore);
    } else {
      const at::Tensor logits = project_to_table(params, table, x);
      loss = cross_entropy_reference(with_bias ? logits + over_tokens(params, bias) : logits, labels);
    }
    (loss * torch::tensor({0.5F, 2.0F, 1.0F})).sum().backward();
    if (written) params.writes().end();
    dx = x.grad().clone();
    gradients = params.grads().clone();
    return loss.detach();
  };
  at::Tensor dx, gradients, expected_dx, expected_gradients;
  const at::Tensor loss = run(true, dx, gradients), expected = run(false, expected_dx, expected_gradients);
  const auto expect_near = [&](const at::Tensor& a, const at::Tensor& b, double tolerance) {
    EXPECT_LE((a - b).norm().item<double>(), (bfloat16 ? 5e-3 : tolerance) * b.norm().item<double>());
  };
  expect_near(loss, expected, 1e-6);
  EXPECT_EQ(loss[2].item<double>(), 0);
  expect_near(dx, expected_dx, 1e-5);
  expect_near(gradients, expected_gradients, 1e-5);
}

TEST(TableLoss, EqualsTheHeadAndItsCrossEntropy) {
  for (const bool with_bias : {false, true}) {
    for (const bool written : {false, true}) check_table_loss(with_bias, false, written);
  }
  check_table_loss(true, true, true);
}

TEST(TableLoss, OfBfloat16IsCloseToThatOfFloat32) {
  if (!MatrixProduct::bfloat16_possible()) GTEST_SKIP() << "this processor has no bfloat16 matmuls";
  for (const bool with_bias : {false, true}) {
    for (const bool frozen : {false, true}) check_table_loss(with_bias, frozen, true, true);
  }
}

TEST(Loss, SoftTargetsAreADivergenceAtATemperature) {
  // softmax([0, ln 3]) is [1/4, 3/4]: KL([1/2, 1/2] || it) = ln 2 - ln 3 / 2, and 0 of itself.
  const at::Tensor logits = torch::tensor({0.0F, std::log(3.0F)}).view({1, 1, 2}).repeat({2, 2, 1});
  const at::Tensor targets =
      torch::tensor({0.5F, 0.5F, 0.0F, 0.0F, 0.25F, 0.75F, 0.5F, 0.5F}).view({2, 2, 2});  // one row is not counted
  const at::Tensor loss = soft_cross_entropy(logits, targets, 1);
  const double divergence = std::log(2.0) - std::log(3.0) / 2;
  EXPECT_NEAR(loss[0].item<double>(), divergence, 1e-6);
  EXPECT_NEAR(loss[1].item<double>(), divergence / 2, 1e-6);
  // At T = 2 logits twice as large have the same probabilities, and the loss is 2^2 times as large.
  EXPECT_NEAR(soft_cross_entropy(2 * logits, targets, 2)[0].item<double>(), 4 * divergence, 1e-6);
}

TEST(Loss, OneHotSoftTargetsAreHardLabels) {
  const at::Tensor logits = torch::randn({2, 5, 7}), labels = torch::randint(0, 7, {2, 5}, at::kLong);
  const at::Tensor soft = soft_cross_entropy(logits, torch::one_hot(labels, 7).to(at::kFloat), 1);
  EXPECT_TRUE(torch::allclose(soft, cross_entropy(logits, labels), 1e-5, 1e-6));
}

}  // namespace
}  // namespace chorus::inline models
