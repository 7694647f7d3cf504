#include "application/models/ops/lookup.h"

#include <gtest/gtest.h>

#include "application/models/ops/lookup_gpu.h"
#include "core/device/kernels.h"

namespace chorus::inline ops {
namespace {

// In double precision, token by token.
at::Tensor added_one_by_one(const at::Tensor& rows, const at::Tensor& ids, std::int64_t words, std::int64_t padding) {
  const at::Tensor from = rows.to(at::kCPU).to(at::kDouble), names = ids.to(at::kCPU);
  const at::Tensor sums = torch::zeros({rows.size(0), words, rows.size(2)}, at::kDouble);
  for (std::int64_t c = 0; c < rows.size(0); ++c) {
    for (std::int64_t t = 0; t < rows.size(1); ++t) {
      const auto id = names[c][t].item<std::int64_t>();
      if (id != padding) sums[c][id].add_(from[c][t]);
    }
  }
  return sums;
}

// Ids as in practice: all different, a few frequent words, all the same, and runs as long as sequences.
std::vector<at::Tensor> some_ids(std::int64_t clients, std::int64_t tokens, std::int64_t words) {
  const at::Tensor runs = torch::arange(tokens, at::kLong).div(50, "floor").remainder(words);
  return {torch::arange(clients * tokens, at::kLong).remainder(words).view({clients, tokens}),
          torch::rand({clients, tokens}).pow(6).mul(static_cast<double>(words)).to(at::kLong),
          torch::full({clients, tokens}, 1, at::kLong), runs.unsqueeze(0).repeat({clients, 1})};
}

TEST(LookUpGpu, AddsWhatEachTokenGives) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  torch::manual_seed(3);
  for (const bool fixed_order : {true, false}) {
    use_deterministic(fixed_order);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const std::int64_t tokens : {1, 31, 32, 33, 64, 65, 300}) {
        for (const at::Tensor& ids : some_ids(2, tokens, 40)) {
          const at::Tensor rows = torch::randn({2, tokens, 20}).to(type).to(at::kCUDA);
          // Clients' tables have a stride, as in Params.
          const at::Tensor memory = torch::ones({2, 40 * 20 + 5}).to(at::kCUDA);
          const at::Tensor tables = memory.narrow(1, 0, 40 * 20).view({2, 40, 20});
          add_looked_up_gpu(rows, ids.to(at::kCUDA), tables, 3);
          const at::Tensor wanted = added_one_by_one(rows, ids, 40, 3) + 1;
          EXPECT_TRUE(torch::allclose(tables.cpu().to(at::kDouble), wanted, 1e-4, 1e-4))
              << fixed_order << ' ' << type << ' ' << tokens;
          EXPECT_TRUE(memory.narrow(1, 40 * 20, 5).eq(1).all().item<bool>());
        }
      }
    }
  }
  use_deterministic(true);
}

TEST(LookUpGpu, TakesManyTokensOfASmallTable) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  torch::manual_seed(6);
  const std::int64_t tokens = 20'000;
  const at::Tensor of_all = torch::randint(32, {1, tokens}, at::kLong).expand({3, tokens});
  for (const at::Tensor& ids : {of_all, torch::randint(32, {3, tokens}, at::kLong)}) {
    const at::Tensor rows = torch::randn({3, tokens, 8}).to(at::kCUDA), tables = torch::ones({3, 32, 8}).to(at::kCUDA);
    const at::Tensor there =
        ids.stride(0) == 0 ? ids.narrow(0, 0, 1).to(at::kCUDA).expand({3, tokens}) : ids.to(at::kCUDA);
    add_looked_up_gpu(rows, there, tables, 2);
    const at::Tensor wanted = torch::zeros({3, 32, 8}, at::kDouble);
    for (std::int64_t c = 0; c < 3; ++c) wanted[c].index_add_(0, ids[c], rows[c].cpu().to(at::kDouble));
    wanted.select(1, 2).zero_();
    EXPECT_LT((tables.cpu().to(at::kDouble) - 1 - wanted).abs().max().item<double>(), 1e-2);
  }
}

TEST(LookUpGpu, GivesTheSameBitsEachTime) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here";
  torch::manual_seed(4);
  // The last has more tokens than our own sort supports.
  for (const std::int64_t tokens : {500, 4000, 20'000}) {
    for (const at::Tensor& ids : some_ids(3, tokens, 1000)) {
      const at::Tensor rows = torch::randn({3, tokens, 16}).to(at::kCUDA), names = ids.to(at::kCUDA);
      at::Tensor first;
      for (int time = 0; time < 5; ++time) {
        const at::Tensor tables = torch::zeros({3, 1000, 16}).to(at::kCUDA);
        add_looked_up_gpu(rows, names, tables, -1);
        if (!first.defined()) first = tables;
        ASSERT_TRUE(torch::equal(first, tables)) << tokens;
      }
      const at::Tensor wanted = torch::zeros({3, 1000, 16}, at::kDouble);
      for (std::int64_t c = 0; c < 3; ++c) wanted[c].index_add_(0, ids[c], rows[c].cpu().to(at::kDouble));
      EXPECT_LT((first.cpu().to(at::kDouble) - wanted).abs().max().item<double>(), 1e-2) << tokens;
    }
  }
}

TEST(RepeatRows, AddsTheGradientsOfItsCopies) {
  torch::manual_seed(5);
  std::vector<at::Device> places{at::kCPU};
  if (at::globalContext().hasCUDA()) places.emplace_back(at::kCUDA, 0);
  const at::Tensor rows = torch::tensor({0, 0, 2, 1, 2, 2}, at::kLong);
  for (const at::Device place : places) {
    const at::Tensor x = torch::randn({3, 4, 5}).to(place).requires_grad_();
    const at::Tensor weights = torch::randn({6, 4, 5}).to(place);
    const at::Tensor y = repeat_rows(x, rows.to(place));
    EXPECT_TRUE(torch::equal(y, x.index_select(0, rows.to(place))));
    (y * weights).sum().backward();
    at::Tensor wanted = torch::zeros({3, 4, 5});
    for (std::int64_t n = 0; n < 6; ++n) wanted[rows[n].item<std::int64_t>()].add_(weights[n].cpu());
    EXPECT_TRUE(torch::allclose(x.grad().cpu(), wanted, 1e-5, 1e-6)) << place;
  }
}

TEST(SumRows, AddsByOwner) {
  const at::Tensor x = torch::arange(8, at::kFloat).view({4, 2}), owner = torch::tensor({1, 0, 1, 3}, at::kLong);
  const at::Tensor wanted = torch::tensor({{2.0F, 3.0F}, {4.0F, 6.0F}, {0.0F, 0.0F}, {6.0F, 7.0F}});
  EXPECT_TRUE(torch::equal(sum_rows(x, owner, 4), wanted));
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU here: added on the CPU only";
  for (const bool fixed_order : {true, false}) {
    use_deterministic(fixed_order);
    EXPECT_TRUE(torch::equal(sum_rows(x.to(at::kCUDA), owner.to(at::kCUDA), 4).cpu(), wanted));
  }
  use_deterministic(true);
}

}  // namespace
}  // namespace chorus::inline ops
