#include "algorithm/federated/weighted_mean.h"

#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <numeric>

#include "core/base/rng.h"
#include "core/files/file_memory.h"

namespace chorus::inline federated {
namespace {

void expect_same_bits_in_any_order(at::Device device) {
  for (const std::size_t slots : {1U, 2U, 3U, 7U, 64U, 100U}) {
    RandomStream stream({.seed = slots, .purpose = "test"});
    std::vector<at::Tensor> values;
    std::vector<double> weights;
    for (std::size_t k = 0; k < slots; ++k) {
      at::Tensor value = torch::empty({50}, at::kFloat);
      for (std::int64_t i = 0; i < 50; ++i) value[i] = stream.normal();
      values.push_back(value.to(device));
      weights.push_back(static_cast<double>(1 + stream.below(1000)));
    }
    std::vector<std::size_t> order(slots);
    std::iota(order.begin(), order.end(), 0U);
    at::Tensor first;
    for (int trial = 0; trial < 5; ++trial) {
      WeightedMean mean(slots);
      for (const std::size_t k : order) {
        if (slots > 3 && k % 5 == 1) {
          mean.skip(k);
        } else {
          mean.add(k, weights[k], values[k]);
        }
        // In slot order, few partial sums are held.
        if (trial == 0) {
          EXPECT_LE(mean.held(), 12U);
        }
      }
      const at::Tensor result = mean.result();
      if (trial == 0) first = result;
      EXPECT_TRUE(torch::equal(first, result));
      stream.shuffle(std::span(order));
    }
    at::Tensor expected = torch::zeros({50}, at::kDouble);
    double total = 0;
    for (std::size_t k = 0; k < slots; ++k) {
      if (slots > 3 && k % 5 == 1) continue;
      expected += values[k].cpu().to(at::kDouble) * weights[k];
      total += weights[k];
    }
    EXPECT_TRUE(torch::allclose(first.cpu().to(at::kDouble), expected / total, 1e-5, 1e-6));
  }
}

TEST(WeightedMean, SameBitsInAnyOrderOfArrival) {
  expect_same_bits_in_any_order(at::kCPU);
  if (torch::cuda::is_available()) expect_same_bits_in_any_order(at::kCUDA);
}

// What lies in a file is summed in blocks, other memory in one pass.
TEST(WeightedMean, SameBitsFromFiles) {
  constexpr std::int64_t kCount = (1 << 20) + 77;
  WeightedMean in_memory(3), in_files(3);
  std::vector<std::shared_ptr<FileMemory>> files;
  for (std::size_t k = 0; k < 3; ++k) {
    const at::Tensor value = torch::arange(kCount, at::kFloat).mul(0.1 * static_cast<double>(k + 1)).sin();
    std::string trouble;
    files.push_back(FileMemory::create(testing::TempDir(), value.nbytes(), trouble));
    if (!files.back()) GTEST_SKIP() << trouble;
    ASSERT_TRUE(files.back()->append({static_cast<const char*>(value.data_ptr()), value.nbytes()}));
    in_memory.add(k, 1.0 + static_cast<double>(k), value);
    in_files.add(k, 1.0 + static_cast<double>(k),
                 torch::from_blob(const_cast<char*>(files.back()->bytes().data()), {kCount}, at::kFloat));
  }
  EXPECT_TRUE(torch::equal(in_memory.result(), in_files.result()));
}

TEST(WeightedMean, OfNothingIsUndefined) {
  EXPECT_FALSE(WeightedMean(0).result().defined());
  WeightedMean mean(3);
  mean.skip(1);
  EXPECT_FALSE(mean.result().defined());
}

}  // namespace
}  // namespace chorus::inline federated
