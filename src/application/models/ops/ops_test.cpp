#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "application/models/ops/attention.h"
#include "application/models/ops/dropout.h"
#include "application/models/ops/layers.h"
#include "application/models/ops/packing.h"
#include "core/error.h"

namespace chorus {
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

TEST(Dropout, KernelEqualsItsReference) {
  const at::Tensor keys = torch::randint(std::numeric_limits<std::int64_t>::max(), {50}, at::kLong);
  const at::Tensor starts = torch::arange(50, at::kLong) * 4096;
  for (const std::int64_t width : {1, 3, 4, 7, 64, 129}) {
    EXPECT_TRUE(torch::equal(keep_mask(keys, starts, width, 0.1), keep_mask_reference(keys, starts, width, 0.1)));
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

// Neighbours, rows and calls must not be correlated: each pair of masks agrees as often as chance says.
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

}  // namespace
}  // namespace chorus
