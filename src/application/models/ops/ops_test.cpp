#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "application/models/ops/attention.h"
#include "application/models/ops/attention_reference.h"
#include "application/models/ops/dropout.h"
#include "application/models/ops/layers.h"
#include "application/models/ops/matrix_product.h"
#include "application/models/ops/packing.h"
#include "application/models/ops/product.h"
#include "application/models/ops/residual.h"
#include "core/base/error.h"
#include "core/device/kernels.h"

namespace chorus::inline ops {
namespace {

TEST(Packing, KnowsWhereEachTokenLies) {
  const Packing packing({{3, 5}, {7}});
  EXPECT_EQ(packing.tokens(), 8);
  EXPECT_EQ(packing.longest(), 7);
  EXPECT_EQ(packing.sequences(), 2);
  EXPECT_EQ(packing.total_sequences(), 3);
  EXPECT_TRUE(torch::equal(packing.positions()[0], torch::tensor({0, 1, 2, 0, 1, 2, 3, 4}, at::kLong)));
  EXPECT_TRUE(torch::equal(packing.owner()[0], torch::tensor({0, 0, 0, 1, 1, 1, 1, 1}, at::kLong)));
  EXPECT_FALSE(packing.token_valid()[1][7].item<bool>());
  EXPECT_TRUE(torch::equal(packing.first_token(), torch::tensor({0, 3, 0, 0}, at::kLong).view({2, 2})));
  EXPECT_TRUE(torch::equal(packing.last_token(), torch::tensor({2, 7, 6, 0}, at::kLong).view({2, 2})));
  EXPECT_THROW(Packing(std::vector<std::vector<std::int64_t>>{{0}}), InternalError);
  EXPECT_THROW(Packing(std::vector<std::vector<std::int64_t>>{{}}), InternalError);
}

TEST(Packing, PackUndoesUnpack) {
  for (const auto& lengths : {std::vector<std::vector<std::int64_t>>{{3, 5}, {7}}, {{4, 4}, {4, 4}}, {{1}}}) {
    const Packing packing(lengths);
    const at::Tensor x = torch::randn({packing.clients(), packing.tokens(), 2});
    const at::Tensor back = packing.pack(packing.unpack(x));
    const at::Tensor valid = packing.token_valid().unsqueeze(-1);
    EXPECT_TRUE(torch::equal(back * valid, x * valid));
    EXPECT_EQ(packing.unpack(x).size(0), packing.total_sequences());
  }
}

// Written out with loops, one sequence and one head at a time.
TEST(Attention, EqualsItsDefinition) {
  torch::manual_seed(1);
  const Packing packing({{3, 2}, {4}});
  const std::int64_t heads = 2, width = 3;
  const at::Tensor q = torch::randn({2, 5, 6}), k = torch::randn({2, 5, 6}), v = torch::randn({2, 5, 6});
  for (const bool causal : {false, true}) {
    Dropout off;
    const at::Tensor got = attention(q, k, v, packing, packing, {.heads = heads, .scale = 0.5, .causal = causal}, off);
    const std::vector<std::array<std::int64_t, 3>> sequences{{0, 0, 3}, {0, 3, 2}, {1, 0, 4}};
    for (const auto& [client, start, length] : sequences) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < length; ++i) {
          const auto part = [&](const at::Tensor& x, std::int64_t row) {
            return x[client][start + row].narrow(0, h * width, width);
          };
          at::Tensor weights = torch::zeros({length});
          const std::int64_t seen = causal ? i + 1 : length;
          for (std::int64_t j = 0; j < seen; ++j) weights[j] = torch::exp(0.5 * part(q, i).dot(part(k, j)));
          weights = weights / weights.sum();
          at::Tensor wanted = torch::zeros({width});
          for (std::int64_t j = 0; j < seen; ++j) wanted = wanted + weights[j] * part(v, j);
          EXPECT_TRUE(torch::allclose(part(got, i), wanted, 1e-5, 1e-6));
        }
      }
    }
  }
}

std::vector<at::Device> devices() {
  if (!at::globalContext().hasCUDA()) return {at::kCPU};
  return {at::kCPU, {at::kCUDA, 0}};
}

// Kernels compared with the operators they replace: results and all gradients.
struct Inputs {
  std::vector<at::Tensor> tensors;
  at::Tensor weights;  // of the result, so that its gradient varies

  static Inputs random(const std::vector<std::vector<std::int64_t>>& shapes, at::Device device = at::kCPU) {
    Inputs inputs;
    for (const auto& shape : shapes) inputs.tensors.push_back(torch::randn(shape).to(device).requires_grad_());
    return inputs;
  }
  // Gradients of parameters are accumulated (Params), so all start at 0.
  std::vector<at::Tensor> gradients(const at::Tensor& result) {
    if (!weights.defined()) weights = torch::randn(result.sizes()).to(result.device());
    std::vector<at::Tensor> all;
    for (const at::Tensor& x : tensors) {
      if (x.grad().defined()) x.grad().zero_();
    }
    (result * weights).sum().backward();
    for (const at::Tensor& x : tensors) all.push_back(x.grad().clone());
    return all;
  }
};

TEST(Masks, OfManyRowsAreThoseOfEach) {
  constexpr std::int64_t kRows = 70;
  for (const std::int64_t width : {0, 1, 4, 19, 255, 256, 257}) {
    const MaskRow first{.key = 7, .start = 12, .threshold = 20000, .scale = 1.5F};
    std::vector<float> all(static_cast<std::size_t>(kRows * width + 4), 9), one(static_cast<std::size_t>(width));
    fill_masks(first, kRows, 1 << 16, width, all.data());
    for (std::int64_t r = 0; r < kRows; ++r) {
      MaskRow row = first;
      row.start += static_cast<std::uint64_t>(r) << 16;
      fill_mask(row, width, one.data());
      EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + r * width)) << width << " " << r;
    }
    EXPECT_EQ(all.back(), 9) << "no more than three floats beyond the last";
  }
}

TEST(Attention, PackedEqualsPaddedWithItsGradients) {
  torch::manual_seed(2);
  const Packing queries({{3, 2, 9}, {4, 5}, {1}}), keys({{5, 1, 8}, {2, 7}, {300}});  // masks of many rows, or of one
  for (const bool cross : {false, true}) {
    const Packing& others = cross ? keys : queries;
    const AttentionSpec spec{.heads = 4, .scale = 0.3, .causal = !cross, .dropout = 0.2};
    Inputs inputs = Inputs::random({{3, 14, 32}, {3, others.tokens(), 32}, {3, others.tokens(), 32}});
    const auto& x = inputs.tensors;
    Dropout first({5, 6, 7}), second({5, 6, 7});
    const at::Tensor valid = queries.token_valid().unsqueeze(2).to(at::kFloat);
    const at::Tensor fast = attention(x[0], x[1], x[2], queries, others, spec, first) * valid;
    const at::Tensor plain = attention_reference(x[0], x[1], x[2], queries, others, spec, second) * valid;
    EXPECT_TRUE(torch::allclose(fast, plain, 1e-5, 1e-6));
    const auto got = inputs.gradients(fast), wanted = inputs.gradients(plain);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(torch::allclose(got[i], wanted[i], 1e-4, 1e-6)) << i;
  }
}

void check_residual_norm(at::Device device, bool trained, double probability) {
  Layout layout;
  const Norm norm = Norm::add(layout, "norm", 36, 1e-5);
  if (!trained) layout.freeze([](const ParamSpec&) { return true; });
  Params params(layout, {.clients = 2, .gradients = true, .device = device});
  const at::Tensor& numbers = trained ? params.values() : params.frozen();
  numbers.copy_(torch::randn(numbers.sizes()));
  Inputs inputs = Inputs::random({{2, 70, 36}, {2, 70, 36}}, device);
  if (trained) inputs.tensors.insert(inputs.tensors.end(), {params[norm.weight], params[norm.bias]});
  Dropout first({8, 9}), second({8, 9});
  const at::Tensor fast = residual_norm(params, norm, inputs.tensors[0], inputs.tensors[1], first, probability);
  const at::Tensor plain = norm(params, second.hidden(inputs.tensors[0], probability) + inputs.tensors[1]);
  EXPECT_TRUE(torch::allclose(fast, plain, 1e-5, 1e-5));
  const auto got = inputs.gradients(fast), wanted = inputs.gradients(plain);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(torch::allclose(got[i], wanted[i], 1e-4, 1e-4)) << i;
}

TEST(Residual, SumAndItsNormEqualTheirPartsWithTheirGradients) {
  torch::manual_seed(4);
  Layout layout;
  const Norm norm = Norm::add(layout, "norm", 36, 1e-5);
  Params params(layout, {.clients = 2, .gradients = true});
  params.values().copy_(torch::randn(params.values().sizes()));
  Inputs inputs = Inputs::random({{2, 70, 36}, {2, 70, 36}});
  inputs.tensors.insert(inputs.tensors.end(), {params[norm.weight], params[norm.bias]});
  const at::Tensor &f = inputs.tensors[0], &x = inputs.tensors[1];
  for (const double probability : {0.0, 0.3}) {
    for (const double more : {0.0, 0.7}) {  // weight of the sum itself, which a network uses further on
      Dropout first({8, 9}), second({8, 9});
      const SumAndNorm fast = sum_then_norm(params, norm, f, x, first, probability);
      const at::Tensor sum = x + second.hidden(f, probability), normal = norm(params, sum);
      EXPECT_TRUE(torch::allclose(fast.sum, sum, 1e-6, 1e-6));
      EXPECT_TRUE(torch::allclose(fast.normal, normal, 1e-5, 1e-5));
      const auto got = inputs.gradients(more > 0 ? fast.normal + more * fast.sum : fast.normal);
      const auto wanted = inputs.gradients(more > 0 ? normal + more * sum : normal);
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(torch::allclose(got[i], wanted[i], 1e-4, 1e-4)) << i;
    }
  }
}

TEST(Residual, NormOfASumEqualsItsPartsWithItsGradients) {
  torch::manual_seed(3);
  for (const at::Device device : devices()) {
    for (const double probability : {0.0, 0.3}) {
      check_residual_norm(device, true, probability);
      check_residual_norm(device, false, probability);
    }
  }
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b.to(at::kDouble)).norm() / b.to(at::kDouble).norm()).item<double>();
}

// A linear layer, a gelu and the end of a sub-layer against the operators they are made of.
void check_sublayer(at::Device device, std::int64_t clients, bool bfloat16, bool frozen_weight) {
  Layout layout;
  const Linear up = Linear::add(layout, "up", {32, 48}, Init::zeros());
  const Linear down =
      Linear::add(layout, "down", {.in = 48, .out = 32, .with_bias = true, .transposed = true}, Init::zeros());
  const Norm norm = Norm::add(layout, "norm", 32, 1e-5);
  if (frozen_weight) layout.freeze([](const ParamSpec& spec) { return spec.name == "up.weight"; });
  Params params(layout, {.clients = clients, .gradients = true, .device = device});
  params.values().copy_(torch::randn(params.values().sizes()) * 0.5);
  params.frozen().copy_(torch::randn(params.frozen().sizes()) * 0.5);
  if (bfloat16) params = params.with_shadow();
  Inputs inputs = Inputs::random({{clients, 70, 32}}, device);
  const at::Tensor x = inputs.tensors[0];
  for (const ParamId id : {up.weight, up.bias, down.weight, down.bias, norm.weight, norm.bias}) {
    if (params.trainable(id)) inputs.tensors.push_back(params[id]);
  }
  Dropout first(std::vector<std::uint64_t>(static_cast<std::size_t>(clients), 8)), second = first, third = first;
  const Adapter none;
  const at::Tensor fast =
      SublayerEnd{norm, none, 0.2}(params, down, activate(Activation::kGelu, params, up, x), x, first);
  const auto transposed = [&](ParamId id) { return params[id].transpose(-1, -2); };
  const auto row = [&](ParamId id) { return params[id].unsqueeze(1); };
  const at::Tensor inner = torch::gelu(torch::matmul(x, transposed(up.weight)) + row(up.bias));
  const at::Tensor sum = second.hidden(torch::matmul(inner, params[down.weight]) + row(down.bias), 0.2) + x;
  const at::Tensor plain = torch::layer_norm(sum, {32}, {}, {}, 1e-5) * row(norm.weight) + row(norm.bias);
  EXPECT_LT(distance(fast, plain), bfloat16 ? 1e-2 : 1e-6);
  const auto got = inputs.gradients(fast), wanted = inputs.gradients(plain);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(distance(got[i], wanted[i]), bfloat16 ? 2e-2 : 1e-5) << i;
  if (!bfloat16 || !device.is_cpu()) return;
  // The reference rounds the same values; sums in another order occasionally round differently.
  use_fast_kernels(false);
  const at::Tensor slow =
      SublayerEnd{norm, none, 0.2}(params, down, activate(Activation::kGelu, params, up, x), x, third);
  const auto also = inputs.gradients(slow);
  use_fast_kernels(true);
  EXPECT_LT(distance(fast, slow), 1e-3);
  EXPECT_GT(distance(slow, plain), 1e-4) << "nothing was rounded";
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(distance(got[i], also[i]), 3e-3) << i;
}

TEST(Sublayer, EqualsTheOperatorsItIsMadeOf) {
  torch::manual_seed(5);
  for (const at::Device device : devices()) {
    for (const std::int64_t clients : {1, 3}) {
      for (const bool frozen : {false, true}) {
        check_sublayer(device, clients, false, frozen);
        check_sublayer(device, clients, true, frozen);
      }
    }
  }
}

TEST(Product, OfJoinedWeightsEqualsThatOfEach) {
  torch::manual_seed(7);
  for (const at::Device device : devices()) {
    for (const std::int64_t clients : {1, 3}) {
      Layout layout;
      const std::vector<Linear> parts = Linear::add_joined(layout, {"q", "k", "v"}, {16, 32}, Init::zeros());
      Params params(layout, {.clients = clients, .gradients = true, .device = device});
      params.values().copy_(torch::randn(params.values().sizes()));
      const at::Tensor x = torch::randn({clients, 20, 16}).to(device),
                       weights = torch::randn({clients, 20, 96}).to(device);
      const auto gradients_of = [&](const std::function<at::Tensor()>& result) {
        params.grads().fill_(NAN);  // exposes what is not written
        params.writes().begin();
        (result() * weights).sum().backward();
        params.writes().end();
        return params.grads().clone();
      };
      const auto each = [&] { return torch::cat({parts[0](params, x), parts[1](params, x), parts[2](params, x)}, -1); };
      const auto joined = [&] { return joined_product(params, {parts[0].weight, parts[0].bias}, x); };
      EXPECT_LT(distance(joined(), each()), 1e-6);
      const at::Tensor wanted = gradients_of(each);
      EXPECT_LT(distance(gradients_of(joined), wanted), 1e-6);
      // Twice, and once together with one of its parts, which may write first or last.
      EXPECT_LT(distance(gradients_of([&] { return joined() + joined(); }), 2 * wanted), 1e-6);
      const auto second = [&] { return torch::constant_pad_nd(parts[1](params, x), {32, 32}); };
      const at::Tensor alone = gradients_of(second);
      EXPECT_LT(distance(gradients_of([&] { return joined() + second(); }), wanted + alone), 1e-6);
      EXPECT_LT(distance(gradients_of([&] { return second() + joined(); }), wanted + alone), 1e-6);
    }
  }
  Layout layout;
  const std::vector<Linear> parts = Linear::add_joined(layout, {"q", "k", "v"}, {16, 32}, Init::zeros());
  layout.freeze([](const ParamSpec& spec) { return spec.name == "k.weight"; });
  const Params params(layout, {.clients = 1, .gradients = true});
  EXPECT_FALSE(joined_product(params, {parts[0].weight, parts[0].bias}, torch::zeros({1, 2, 16})).defined());
}

TEST(Embedding, AddsToTheRowsItReadButThePaddings) {
  for (const at::Device device : devices()) {
    Layout layout;
    Embedding words = Embedding::add(layout, "words", 9, 5, Init::zeros());
    words.padding = 2;
    Params params(layout, {.clients = 2, .gradients = true, .device = device});
    params.values().copy_(torch::randn(params.values().sizes()));
    const at::Tensor ids = torch::tensor({1, 1, 2, 8, 1, 0, 3, 2, 2, 3}, at::kLong).view({2, 5}).to(device);
    const at::Tensor weights = torch::randn({2, 5, 5}).to(device);
    const at::Tensor rows = words(params, ids);
    (rows * weights).sum().backward();
    for (std::int64_t c = 0; c < 2; ++c) {
      EXPECT_TRUE(torch::equal(rows[c], params.tensor(words.table, c).index_select(0, ids[c])));
      at::Tensor wanted = torch::zeros({9, 5}, weights.options()).index_add_(0, ids[c], weights[c]);
      wanted[2].zero_();
      EXPECT_TRUE(torch::allclose(params.gradient(words.table, c), wanted, 1e-5, 1e-6));
    }
  }
}

TEST(Attention, OnAGpuInBfloat16IsCloseToFloat32) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  torch::manual_seed(6);
  const at::Device gpu(at::kCUDA, 0);
  const Packing queries({{3, 150, 9}, {64, 65}, {1}}, gpu), keys({{5, 1, 90}, {130, 7}, {4}}, gpu);
  for (const std::int64_t width : {16, 32, 64}) {
    for (const bool cross : {false, true}) {
      const Packing& others = cross ? keys : queries;
      const AttentionSpec spec{.heads = 3, .scale = 0.2, .causal = !cross, .dropout = 0.2};
      Inputs inputs = Inputs::random(
          {{3, queries.tokens(), 3 * width}, {3, others.tokens(), 3 * width}, {3, others.tokens(), 3 * width}}, gpu);
      const auto half = [&](std::size_t i) { return inputs.tensors[i].to(at::kBFloat16); };
      Dropout first({5, 6, 7}), second({5, 6, 7});
      const at::Tensor valid = queries.token_valid().unsqueeze(2).to(at::kFloat);
      const at::Tensor fast = attention(half(0), half(1), half(2), queries, others, spec, first) * valid;
      const at::Tensor plain =
          attention_reference(inputs.tensors[0], inputs.tensors[1], inputs.tensors[2], queries, others, spec, second) *
          valid;
      EXPECT_LT(distance(fast, plain), 1e-2);
      const auto got = inputs.gradients(fast), wanted = inputs.gradients(plain);
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(distance(got[i], wanted[i]), 2e-2) << i;
    }
  }
}

TEST(Norm, OfACohortEqualsEachClientsOwn) {
  torch::manual_seed(4);
  for (const at::Device device : devices()) {
    Layout layout;
    const Norm norm = Norm::add(layout, "norm", 48, 1e-5);
    Params params(layout, {.clients = 3, .gradients = true, .device = device});
    params.values().copy_(torch::randn(params.values().sizes()));
    Inputs inputs = Inputs::random({{3, 20, 48}}, device);
    inputs.tensors.insert(inputs.tensors.end(), {params[norm.weight], params[norm.bias]});
    std::vector<at::Tensor> parts;
    for (std::int64_t c = 0; c < 3; ++c) {
      parts.push_back(torch::layer_norm(inputs.tensors[0][c], {48}, inputs.tensors[1][c], inputs.tensors[2][c], 1e-5));
    }
    const at::Tensor fast = norm(params, inputs.tensors[0]), plain = torch::stack(parts);
    EXPECT_TRUE(torch::allclose(fast, plain, 1e-5, 1e-5));
    const auto got = inputs.gradients(fast), wanted = inputs.gradients(plain);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(torch::allclose(got[i], wanted[i], 1e-4, 1e-4)) << i;
  }
}

TEST(Activation, GeluEqualsLibTorchs) {
  const at::Tensor x = torch::linspace(-12, 12, 20'001).requires_grad_();
  for (const bool by_tanh : {false, true}) {
    const at::Tensor fast = gelu(x, by_tanh), plain = torch::gelu(x, by_tanh ? "tanh" : "none");
    EXPECT_LT((fast - plain).abs().max().item<double>(), 2e-6);
    const at::Tensor weights = torch::rand({20'001});
    const auto got = torch::autograd::grad({(fast * weights).sum()}, {x});
    const auto wanted = torch::autograd::grad({(plain * weights).sum()}, {x});
    EXPECT_LT((got[0] - wanted[0]).abs().max().item<double>(), 2e-6);
  }
}

TEST(Dropout, KernelsEqualTheReference) {
  for (const at::Device device : devices()) {
    for (const std::int64_t width : {1, 3, 4, 7, 64, 1029}) {
      Dropout dropout({3, 4});
      const Dropout::Site site = Dropout({3, 4}).site(0.1, at::kCPU);
      const at::Tensor x = torch::ones({2, 25, width}).to(device).requires_grad_();
      const at::Tensor kernel = dropout.hidden(x, 0.1);
      kernel.sum().backward();
      const at::Tensor starts = torch::arange(25, at::kLong) * ((width + 3) / 4 * 4);
      for (std::int64_t c = 0; c < 2; ++c) {
        const auto key = static_cast<std::int64_t>(site.keys[static_cast<std::size_t>(c)]);
        const at::Tensor wanted = keep_mask(torch::full({25}, key, at::kLong), starts, width, site);
        EXPECT_TRUE(torch::equal(kernel[c].cpu(), wanted)) << device;
        EXPECT_TRUE(torch::equal(x.grad()[c].cpu(), wanted)) << device;
      }
    }
  }
}

TEST(Dropout, WeightsAreTheSameOnEveryDevice) {
  const std::vector<std::vector<std::int64_t>> lengths{{3, 2, 9}, {4, 5}};
  at::Tensor first;
  for (const at::Device device : devices()) {
    Dropout dropout({3, 4});
    const at::Tensor x = torch::ones({5, 4, 9, 9}).to(device).requires_grad_();
    const at::Tensor y = dropout.weights(x, 0.3, Packing(lengths, device));
    y.sum().backward();
    EXPECT_TRUE(torch::equal(y, x.grad()));
    if (!first.defined()) first = y;
    EXPECT_TRUE(torch::equal(first, y.cpu()));
  }
}

TEST(Dropout, DropsItsShareAndKeepsTheMean) {
  const at::Tensor x = torch::ones({2, 300, 256});
  Dropout dropout({1, 2});
  const at::Tensor y = dropout.hidden(x, 0.25);
  EXPECT_NEAR(y.eq(0).to(at::kFloat).mean().item<float>(), 0.25, 0.005);
  EXPECT_NEAR(y.mean().item<float>(), 1.0, 0.01);
  EXPECT_FALSE(torch::equal(y[0], y[1]));                         // clients differ
  EXPECT_FALSE(torch::equal(dropout.hidden(x, 0.25), y));         // sites differ
  EXPECT_TRUE(torch::equal(Dropout({1, 2}).hidden(x, 0.25), y));  // passes repeat
  EXPECT_TRUE(torch::equal(Dropout().hidden(x, 0.25), x));
}

// Neighbours, rows and calls must not be correlated: pairs of masks agree as often as chance predicts.
TEST(Dropout, IsNotCorrelated) {
  Dropout dropout({7});
  const at::Tensor x = torch::ones({1, 2000, 128});
  const at::Tensor a = dropout.hidden(x, 0.5).gt(0).to(at::kFloat), b = dropout.hidden(x, 0.5).gt(0).to(at::kFloat);
  const auto correlation = [](const at::Tensor& p, const at::Tensor& q) {
    return std::abs(((p - 0.5) * (q - 0.5)).mean().item<float>() * 4);
  };
  EXPECT_LT(correlation(a, b), 0.01);
  EXPECT_LT(correlation(a.narrow(2, 1, 127), a.narrow(2, 0, 127)), 0.01);
  EXPECT_LT(correlation(a.narrow(1, 1, 1999), a.narrow(1, 0, 1999)), 0.01);
}

// A head's table is not zeroed before a step; if no head writes first, the lookup zeroes it.
TEST(Embedding, WritesAHeadsTableWhereItComesFirst) {
  Layout layout;
  const Embedding words = Embedding::add(layout, "words", 9, 5, Init::zeros());
  layout.mark_head_table(words.table);
  Params params(layout, {.clients = 1, .gradients = true});
  params.grads().fill_(7);
  params.writes().begin();
  words(params, torch::tensor({{1, 4, 1}}, at::kLong)).sum().backward();
  params.writes().end();
  at::Tensor wanted = torch::zeros({9, 5});
  wanted[1].fill_(2);
  wanted[4].fill_(1);
  EXPECT_TRUE(params.gradient(words.table, 0).equal(wanted));
}

TEST(Embedding, PaddingRowGetsNoGradient) {
  for (const std::int64_t clients : {1, 3}) {
    Layout layout;
    Embedding embedding = Embedding::add(layout, "words", 5, 4, Init::ones());
    embedding.padding = 1;
    Params params(layout, {.clients = clients, .gradients = true});
    const at::Tensor ids = torch::tensor({0, 1, 1, 3}, at::kLong).expand({clients, 4});
    embedding(params, ids).sum().backward();
    EXPECT_EQ(params.gradient(embedding.table, clients - 1)[1].abs().sum().item<float>(), 0);
    EXPECT_EQ(params.gradient(embedding.table, clients - 1)[3].sum().item<float>(), 4);
  }
}

TEST(Activation, UnknownNameIsRefused) { EXPECT_THROW(activation_named("geglu2"), DataError); }

// Large enough for either library, transposed or not, with a row stride. Elements of 8 bits multiply without
// rounding, so that only the order of additions differs in bfloat16, too.
void check_matmuls(at::ScalarType type, float scale) {
  torch::manual_seed(7);
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 4}, {130, 120, 91}, {70, 100, 200}, {64, 96, 700}}) {
    for (int flags = 0; flags < 8; ++flags) {
      const bool transpose_a = (flags & 1) != 0, transpose_b = (flags & 2) != 0, add = (flags & 4) != 0;
      const at::Tensor a = torch::randn(transpose_a ? at::IntArrayRef{k, m + 3} : at::IntArrayRef{m, k + 3}).to(type);
      const at::Tensor b = torch::randn(transpose_b ? at::IntArrayRef{n, k} : at::IntArrayRef{k, n}).to(type);
      const at::Tensor left = a.narrow(1, 0, transpose_a ? m : k).to(at::kFloat), right = b.to(at::kFloat);
      const at::Tensor product = torch::matmul(transpose_a ? left.t() : left, transpose_b ? right.t() : right) * scale;
      const at::Tensor c = torch::randn({m, n + 2}), beyond = c.narrow(1, n, 2).clone();
      const at::Tensor expected = add ? product + c.narrow(1, 0, n) : product;
      MatrixProduct{
          .m = m, .n = n, .k = k, .scale = scale, .transpose_a = transpose_a, .transpose_b = transpose_b, .add = add}(
          {a, 0, a.size(1)}, {b, 0, b.size(1)}, c.data_ptr<float>(), n + 2);
      EXPECT_TRUE(torch::allclose(c.narrow(1, 0, n), expected, 1e-4, 1e-4)) << m << " " << flags;
      EXPECT_TRUE(c.narrow(1, n, 2).equal(beyond));
    }
  }
}

TEST(MatrixProduct, IsThatOfLibTorch) {
  if (!MatrixProduct::possible()) GTEST_SKIP() << "no BLAS here";
  check_matmuls(at::kFloat, 0.5F);
}

TEST(MatrixProduct, OfBfloat16EqualsThatOfTheSameElements) {
  if (!MatrixProduct::bfloat16_possible()) GTEST_SKIP() << "this processor has no bfloat16 matmuls";
  check_matmuls(at::kBFloat16, 1);
}

}  // namespace
}  // namespace chorus::inline ops
