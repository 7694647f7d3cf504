#include "core/tensor/params.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace chorus {
namespace {

Layout small_layout() {
  Layout layout;
  layout.add("a.weight", {4, 8}, Init::normal(0.5));
  layout.begin_layer(0);
  layout.add("odd.bias", {5}, Init::ones());
  layout.begin_layer(1);
  layout.add("b.weight", {16}, Init::zeros());
  layout.add_buffer("b.table", {3}, Init::ones());
  return layout;
}

TEST(Layout, PlacesOddSizesLastAndLeavesNoHoles) {
  const Layout layout = small_layout();
  EXPECT_EQ(layout.trainable_size(), 32 + 5 + 16);
  EXPECT_EQ(layout.frozen_size(), 3);
  EXPECT_EQ(layout[*layout.find("a.weight")].offset, 0);
  EXPECT_EQ(layout[*layout.find("b.weight")].offset, 32);
  EXPECT_EQ(layout[*layout.find("odd.bias")].offset, 48);
}

TEST(Layout, FreezeMovesParametersBetweenTheVectors) {
  Layout layout = small_layout();
  layout.freeze([](const ParamSpec& spec) { return spec.layer < 1; });
  EXPECT_EQ(layout.trainable_size(), 16);
  EXPECT_EQ(layout.frozen_size(), 3 + 5 + 32);
  layout.freeze([](const ParamSpec&) { return false; });
  EXPECT_EQ(layout.trainable_size(), 53);
}

TEST(Layout, RefusesTheSameNameTwice) {
  Layout layout = small_layout();
  EXPECT_THROW(layout.add("a.weight", {1}, Init::zeros()), InternalError);
}

TEST(Params, BackwardAccumulatesIntoTheFlatGradient) {
  const Layout layout = small_layout();
  Params params(layout, {.clients = 3, .gradients = true});
  params.initialise(1);
  const ParamId id = *layout.find("a.weight");
  const at::Tensor scale = torch::tensor({1.0f, 2.0f, 3.0f}).view({3, 1, 1});
  (params[id] * params[id] * scale).sum().backward();
  const at::Tensor once = params.grads().clone();
  EXPECT_TRUE(torch::allclose(params.gradient(id, 2), 6 * params.tensor(id, 2)));
  EXPECT_EQ(params.grads().narrow(1, 32, 21).abs().max().item<float>(), 0);
  (params[id] * params[id] * scale).sum().backward();
  EXPECT_TRUE(torch::allclose(params.grads(), 2 * once));
  params.zero_grads();
  EXPECT_EQ(params.gradient(id, 1).abs().max().item<float>(), 0);
}

TEST(Params, WhatNoProductWroteIsZeroAtTheEnd) {
  Layout layout;
  const ParamId bias = layout.add("bias", {16}, Init::ones()), used = layout.add("used", {4, 8}, Init::ones()),
                unused = layout.add("unused", {2, 8}, Init::ones());
  layout.mark_product(used);
  layout.mark_product(unused);
  EXPECT_EQ(layout.products_size(), 48);
  EXPECT_EQ(layout[bias].offset, 48);
  Params params(layout, {.clients = 2, .gradients = true});
  params.grads().fill_(7);
  params.begin_grads();
  EXPECT_EQ(params.gradient(bias, 1).abs().max().item<float>(), 0);
  EXPECT_EQ(params.written()->parameters, (std::vector<std::uint8_t>{1, 0, 0}));
  params.gradient(used, 0).fill_(3);  // as a product does
  params.gradient(used, 1).fill_(3);
  params.written()->parameters[1] = 1;
  params.end_grads();
  EXPECT_EQ(params.gradient(used, 1).min().item<float>(), 3);
  EXPECT_EQ(params.gradient(unused, 1).abs().max().item<float>(), 0);
}

TEST(Params, AStepOnTheFlatBufferIsSeenByTheLeaves) {
  const Layout layout = small_layout();
  Params params(layout, {.clients = 2, .gradients = true});
  const ParamId id = *layout.find("odd.bias");
  params.values().add_(torch::tensor({1.0f, 2.0f}).view({2, 1}));
  EXPECT_EQ(params[id][1][4].item<float>(), 2);
  EXPECT_EQ(params.client(1)[id][0][4].item<float>(), 2);
}

TEST(Params, ACohortSharesTheFrozenVectorAndCopiesTheRest) {
  Layout layout = small_layout();
  layout.freeze([](const ParamSpec& spec) { return spec.layer == kEmbeddingLayer; });
  Params base(layout, {});
  base.initialise(7);
  Params cohort = Params::cohort_of(base, 4, true);
  EXPECT_EQ(cohort.frozen().data_ptr(), base.frozen().data_ptr());
  EXPECT_TRUE(torch::equal(cohort.values()[3], base.values()[0]));
  cohort.values().zero_();
  EXPECT_EQ(base.tensor(*layout.find("odd.bias"))[0].item<float>(), 1);
}

TEST(Params, InitialisationDependsOnSeedAndNameOnly) {
  const Layout layout = small_layout();
  Params one(layout, {}), two(layout, {.clients = 2});
  one.initialise(5);
  two.initialise(5);
  EXPECT_TRUE(torch::equal(one.values()[0], two.values()[1]));
  two.initialise(6);
  EXPECT_FALSE(torch::equal(one.values()[0], two.values()[1]));
}

}  // namespace
}  // namespace chorus
