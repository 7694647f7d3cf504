#include "core/tensor/params.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace chorus::inline tensor {
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
  params.writes().zero();
  EXPECT_EQ(params.gradient(id, 1).abs().max().item<float>(), 0);
}

TEST(Params, GradientsThatNoMatmulWroteAreZero) {
  Layout layout;
  const ParamId bias = layout.add("bias", {16}, Init::ones()), used = layout.add("used", {4, 8}, Init::ones()),
                unused = layout.add("unused", {2, 8}, Init::ones());
  layout.mark_matmul_weight(used);
  layout.mark_matmul_weight(unused);
  EXPECT_EQ(layout.matmul_size(), 48);
  EXPECT_EQ(layout[bias].offset, 48);
  Params params(layout, {.clients = 2, .gradients = true});
  params.grads().fill_(7);
  params.writes().begin();
  EXPECT_EQ(params.gradient(bias, 1).abs().max().item<float>(), 0);
  EXPECT_EQ(params.writes().written, (std::vector<std::uint8_t>{1, 0, 0}));
  params.gradient(used, 0).fill_(3);  // as a matmul does
  params.gradient(used, 1).fill_(3);
  params.writes().written[1] = 1;
  params.writes().end();
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
  Params cohort = Params::copies_of(base, 4, true);
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

TEST(StoragePlan, GroupsMatmulWeightsOthersOddSizesAndTheLast) {
  Layout layout;
  layout.add("table", {4, 16}, Init::zeros());
  const ParamId weight = layout.add("weight", {2, 16}, Init::zeros());
  layout.add("odd", {3}, Init::zeros());
  layout.add("norm", {16}, Init::zeros());
  layout.mark_matmul_weight(weight);
  const auto offset = [](const Layout& of, const char* name) { return of[*of.find(name)].offset; };
  EXPECT_EQ(offset(layout, "weight"), 0);
  EXPECT_EQ(offset(layout, "table"), 32);
  EXPECT_EQ(offset(layout, "norm"), 96);
  EXPECT_EQ(offset(layout, "odd"), 112);
  EXPECT_EQ(layout.matmul_size(), 32);
  const Layout smaller = layout.with_rows(*layout.find("table"), 2);
  EXPECT_EQ(offset(smaller, "norm"), 32);
  EXPECT_EQ(offset(smaller, "odd"), 48);
  EXPECT_EQ(offset(smaller, "table"), 51);
  EXPECT_EQ(smaller.trainable_size(), 83);
}

TEST(JoinedViews, AreOneWhereParametersLieSideBySideAndTrainAlike) {
  Layout layout;
  const ParamId first = layout.add("q", {2, 16}, Init::zeros());
  layout.add("k", {2, 16}, Init::zeros());
  layout.join(first, 2);
  Params params(layout, {.clients = 3, .gradients = true});
  ASSERT_EQ(params.joined(first).sizes(), (at::IntArrayRef{3, 4, 16}));
  params.joined(first).sum().backward();
  EXPECT_EQ(params.gradient(*layout.find("k"), 2).min().item<float>(), 1);
  layout.freeze([](const ParamSpec& spec) { return spec.name == "q"; });
  EXPECT_FALSE(Params(layout, {}).joined(first).defined()) << "one of them is frozen";
  layout.freeze([](const ParamSpec&) { return true; });
  EXPECT_EQ(Params(layout, {}).joined(first).sizes(), (at::IntArrayRef{4, 16}));
}

TEST(Bfloat16Shadow, CopiesWhatTrainsAndSharesTheFrozenCopy) {
  Layout layout = small_layout();
  layout.freeze([](const ParamSpec& spec) { return spec.layer == 1; });
  Params params(layout, {.clients = 2, .gradients = true});
  params.initialise(3);
  const ParamId trained = *layout.find("a.weight"), frozen = *layout.find("b.table");
  EXPECT_FALSE(params.shadow().exists());
  EXPECT_FALSE(params.shadow()[trained].defined());
  const Params with = params.with_shadow(), again = params.with_shadow();
  EXPECT_TRUE(with.shadow()[trained].equal(params[trained].to(at::kBFloat16)));
  EXPECT_EQ(with.shadow()[frozen].data_ptr(), again.shadow()[frozen].data_ptr());
  EXPECT_NE(with.shadow()[trained].data_ptr(), again.shadow()[trained].data_ptr());
  const Params second = with.client(1);
  EXPECT_EQ(second.shadow()[trained].data_ptr(), with.shadow()[trained][1].data_ptr());
  // A changed frozen vector is copied again.
  params.tensor(frozen).fill_(7);
  EXPECT_EQ(params.with_shadow().shadow()[frozen][0].item<float>(), 7);
}

}  // namespace
}  // namespace chorus::inline tensor
