// Our GPU kernels compared with the references, over the widths and types that have their own variants.
#include <gtest/gtest.h>

#include <functional>

#include "application/models/ops/attention.h"
#include "application/models/ops/attention_gpu.h"
#include "application/models/ops/bias_gelu_gpu.h"
#include "application/models/ops/dropout.h"
#include "application/models/ops/layers.h"
#include "application/models/ops/norm_gpu.h"
#include "application/models/ops/product.h"
#include "application/models/ops/residual.h"
#include "application/models/ops/sums_gpu.h"
#include "core/device/kernels.h"
#include "core/device/tf32.h"

namespace chorus::inline ops {
namespace {

class GpuKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
    torch::manual_seed(11);
  }
  void TearDown() override { use_fast_kernels(true); }

  static at::Tensor normal(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
    return torch::randn(shape).to(type).to(at::kCUDA);
  }
  static double relative_error(const at::Tensor& got, const at::Tensor& wanted) {
    const at::Tensor a = got.to(at::kDouble), b = wanted.to(at::kDouble);
    return ((a - b).norm() / (b.norm() + 1e-12)).item<double>();
  }
  static double room(at::ScalarType type) { return type == at::kFloat ? 1e-5 : 1e-2; }
};

TEST_F(GpuKernels, ColumnSumsOfAnyWidth) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t width : {1, 2, 63, 64, 65, 130, 768}) {
      const at::Tensor x = normal({3, 77, width}, type), sums = torch::ones({3, width + 3}).to(at::kCUDA);
      column_sums_gpu(x, sums.narrow(1, 0, width));
      EXPECT_LT(relative_error(sums.narrow(1, 0, width), x.to(at::kFloat).sum(1) + 1), 1e-5) << type << ' ' << width;
      EXPECT_TRUE(sums.narrow(1, width, 3).eq(1).all().item<bool>());
    }
  }
}

TEST_F(GpuKernels, FoldedSums) {
  const at::Tensor sums = normal({3, 2, 9, 300}), first = normal({2, 300}), third = normal({2, 300});
  const at::Tensor wanted_first = first + sums[0].sum(1), wanted_third = third + sums[2].sum(1);
  fold_sums_gpu(sums, {first, at::Tensor(), third});
  EXPECT_LT(relative_error(first, wanted_first), 1e-5);
  EXPECT_LT(relative_error(third, wanted_third), 1e-5);
}

TEST_F(GpuKernels, BiasAndGeluOfAnyWidth) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t width : {4, 1024, 1028, 5120}) {
      for (const bool by_tanh : {false, true}) {
        for (const bool biased : {false, true}) {
          const at::Tensor x = normal({2, 37, width}, type), dy = normal({2, 37, width}, type);
          const at::Tensor bias = biased ? normal({2, width}) : at::Tensor();
          at::Tensor dbias = biased ? normal({2, width}) : at::Tensor();
          const at::Tensor before = biased ? dbias.clone() : at::Tensor();
          const at::Tensor sum = (biased ? x.to(at::kFloat) + bias.unsqueeze(1) : x.to(at::kFloat)).requires_grad_();
          const at::Tensor wanted = torch::gelu(sum, by_tanh ? "tanh" : "none");
          EXPECT_LT(relative_error(bias_gelu_gpu(x, bias, by_tanh), wanted), room(type)) << type << ' ' << width;
          wanted.backward(dy.to(at::kFloat));
          const at::Tensor dx = bias_gelu_gradient_gpu(x, bias, dy, by_tanh, dbias);
          EXPECT_LT(relative_error(dx, sum.grad()), room(type)) << type << ' ' << width;
          if (!biased) continue;
          EXPECT_LT(relative_error(dbias, before + sum.grad().sum(1)), room(type)) << type << ' ' << width;
          const at::Tensor added = x.clone();
          add_bias_gpu(added, bias);
          EXPECT_LT(relative_error(added, x.to(at::kFloat) + bias.unsqueeze(1)), room(type)) << type << ' ' << width;
        }
      }
    }
  }
}

TEST_F(GpuKernels, NormsOfAnyWidth) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t width : {4, 128, 132, 384, 516, 768, 1024, 1028, 2048}) {
      const at::Tensor f = normal({2, 45, width}, type), x = normal({2, 45, width}, type);
      const at::Tensor f_bias = normal({2, width}), weight = normal({2, width}), bias = normal({2, width});
      const at::Tensor dy = normal({2, 45, width}, type);
      const NormGpu got = residual_norm_gpu({f, f_bias, x, weight, bias, {}, 1e-5}, type);
      const at::Tensor s = (f.to(at::kFloat) + f_bias.unsqueeze(1) + x.to(at::kFloat)).requires_grad_();
      const at::Tensor plain = torch::layer_norm(s, {width}, {}, {}, 1e-5);
      const at::Tensor wanted = plain * weight.unsqueeze(1) + bias.unsqueeze(1);
      EXPECT_LT(relative_error(got.y, wanted), room(type)) << type << ' ' << width;
      wanted.backward(dy.to(at::kFloat));
      const NormGradientGpu gradient =
          residual_norm_gradient_gpu(dy, got, weight, {}, {.f = type, .x = type, .sums = true});
      EXPECT_LT(relative_error(gradient.df, s.grad()), 2 * room(type)) << type << ' ' << width;
      const at::Tensor sums = gradient.sums.sum(2);
      EXPECT_LT(relative_error(sums[0], (dy.to(at::kFloat) * plain).sum(1)), 2 * room(type)) << type << ' ' << width;
      EXPECT_LT(relative_error(sums[1], dy.to(at::kFloat).sum(1)), 2 * room(type)) << type << ' ' << width;
      EXPECT_LT(relative_error(sums[2], s.grad().sum(1)), 5 * room(type)) << type << ' ' << width;
    }
  }
}

TEST_F(GpuKernels, MasksOfBfloat16AreThoseOfFloat32) {
  const at::Tensor x = torch::ones({2, 25, 19}).to(at::kCUDA);
  Dropout first({3, 4}), second({3, 4});
  EXPECT_TRUE(torch::equal(first.hidden(x, 0.25).to(at::kBFloat16), second.hidden(x.to(at::kBFloat16), 0.25)));
}

// The same call with our kernels and with LibTorch's operators: values and all gradients.
TEST_F(GpuKernels, AttentionOfFloat32) {
  const at::Device gpu(at::kCUDA, 0);
  const Packing queries({{3, 150, 9}, {64, 65}, {1}}, gpu), keys({{5, 1, 90}, {130, 7}, {4}}, gpu);
  for (const bool cross : {false, true}) {
    const Packing& others = cross ? keys : queries;
    const AttentionSpec spec{.heads = 3, .scale = 0.2, .causal = !cross, .dropout = 0.2};
    const at::Tensor valid = queries.token_valid().unsqueeze(2).to(at::kFloat);
    const at::Tensor q = normal({3, queries.tokens(), 36}), k = normal({3, others.tokens(), 36});
    const at::Tensor v = normal({3, others.tokens(), 36}), weights = normal({3, queries.tokens(), 36});
    std::vector<std::vector<at::Tensor>> results;
    for (const bool fast : {true, false}) {
      use_fast_kernels(fast);
      const std::vector<at::Tensor> in{q.clone().requires_grad_(), k.clone().requires_grad_(),
                                       v.clone().requires_grad_()};
      Dropout dropout({5, 6, 7});
      const at::Tensor out = attention(in[0], in[1], in[2], queries, others, spec, dropout) * valid;
      (out * weights).sum().backward();
      results.push_back({out, in[0].grad(), in[1].grad(), in[2].grad()});
    }
    for (std::size_t i = 0; i < 4; ++i) EXPECT_LT(relative_error(results[0][i], results[1][i]), 1e-4) << i;
  }
}

// The bfloat16 and TF32 kernels compared with plain float32.
TEST_F(GpuKernels, AttentionOfEveryHeadWidth) {
  const at::Device gpu(at::kCUDA, 0);
  const Packing packing({{3, 150, 9}, {64, 65}, {1}}, gpu);
  const at::Tensor valid = packing.token_valid().unsqueeze(2).to(at::kFloat);
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const double bound = type == at::kBFloat16 ? 1e-2 : 1e-3;
    for (const std::int64_t width : {16, 32, 48, 64}) {
      for (const bool causal : {false, true}) {
        const AttentionSpec spec{.heads = 2, .scale = 0.2, .causal = causal, .dropout = 0.2};
        const at::Tensor qkv = normal({3, packing.tokens(), 6 * width}, type);
        const at::Tensor weights = normal({3, packing.tokens(), 2 * width});
        std::vector<std::vector<at::Tensor>> results;
        for (const bool fast : {true, false}) {
          use_fast_kernels(fast);
          const Tf32Matmuls tf32(fast);
          const at::Tensor in = (fast ? qkv.clone() : qkv.to(at::kFloat)).requires_grad_();
          ASSERT_TRUE(!fast || attention_gpu_fits(in, width, packing, spec));
          Dropout dropout({5, 6, 7});
          const at::Tensor out = self_attention(in, packing, spec, dropout).to(at::kFloat) * valid;
          (out * weights).sum().backward();
          results.push_back({out, in.grad()});
        }
        EXPECT_LT(relative_error(results[0][0], results[1][0]), bound) << type << ' ' << width;
        EXPECT_LT(relative_error(results[0][1], results[1][1]), 2 * bound) << type << ' ' << width;
        EXPECT_FALSE(torch::equal(results[0][0], results[1][0])) << "the kernels were not used";
      }
    }
  }
}

TEST_F(GpuKernels, AttentionOfFloat32WithoutTf32IsExact) {
  const Packing packing({{3, 15}}, {at::kCUDA, 0});
  EXPECT_FALSE(attention_gpu_fits(normal({1, 18, 96}), 16, packing, {.heads = 2}));
}

// Every sum of a backward pass, twice.
TEST_F(GpuKernels, GiveTheSameBitsEachTime) {
  const at::Device gpu(at::kCUDA, 0);
  Layout layout;
  const Embedding words = Embedding::add(layout, "words", 50, 64, Init::zeros());
  const Linear up = Linear::add(layout, "up", {64, 256}, Init::zeros());
  const Linear down = Linear::add(layout, "down", {256, 64}, Init::zeros());
  const Norm norm = Norm::add(layout, "norm", 64, 1e-5);
  Params params(layout, {.clients = 3, .gradients = true, .device = gpu});
  params.values().copy_(torch::randn(params.values().sizes()) * 0.3);
  const at::Tensor ids = torch::randint(50, {3, 800}, at::kLong).to(gpu), weights = normal({3, 800, 64});
  at::Tensor first;
  for (int time = 0; time < 5; ++time) {
    params.grads().zero_();
    Dropout dropout({1, 2, 3});
    const at::Tensor x = words(params, ids);
    const at::Tensor y =
        residual_norm(params, norm, down(params, activate(Activation::kGelu, params, up, x)), x, dropout, 0.1);
    (y * weights).sum().backward();
    if (!first.defined()) first = params.grads().clone();
    EXPECT_TRUE(torch::equal(first, params.grads())) << time;
  }
}

}  // namespace
}  // namespace chorus::inline ops
