#include "application/trainer/client_batches.h"

#include <gtest/gtest.h>

#include <numeric>

#include "application/trainer/tiny_classifier_test.h"
#include "core/base/rng.h"

namespace chorus::inline trainer {
namespace {

struct Rows : tiny::Classifier {
  Rows() : Classifier(600) {}
  std::size_t tokens(std::span<const std::uint32_t> batch) const {
    return std::accumulate(batch.begin(), batch.end(), std::size_t{0},
                           [&](std::size_t sum, std::uint32_t row) { return sum + encoded->length(row); });
  }
};

TEST(ClientBatches, AnEpochHasEveryRowOnceAndEpochsDiffer) {
  const Rows rows;
  const ClientData data = rows.client(10, 45);
  ClientBatches batches({data, 3, 8, 1, 2}), again({data, 3, 8, 1, 2});
  std::vector<std::vector<std::uint32_t>> epochs(2);
  for (std::int64_t number = 0; number < 12; ++number) {
    const auto batch = batches.at(number);
    EXPECT_LE(batch.size(), 8U);
    epochs[static_cast<std::size_t>(number / 6)].insert(epochs[static_cast<std::size_t>(number / 6)].end(),
                                                        batch.begin(), batch.end());
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    auto expected = data.rows;
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(epoch, expected);
  }
  // Whatever was read before.
  const auto late = again.at(9), same = batches.at(9);
  EXPECT_TRUE(std::equal(late.begin(), late.end(), same.begin(), same.end()));
}

TEST(ClientBatches, LongBatchesOfClientsMeet) {
  const Rows rows;
  std::vector<ClientData> data;
  for (std::size_t c = 0; c < 8; ++c) data.push_back(rows.client(c * 64, c % 2 == 0 ? 64 : 60));
  double wasted = 0, wasted_by_chance = 0, all = 0;
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::vector<std::vector<std::size_t>> tokens;
    for (std::size_t c = 0; c < data.size(); ++c) {
      ClientBatches batches({data[c], static_cast<ClientId>(c), 4, 1, round});
      auto& mine = tokens.emplace_back();
      const auto count = static_cast<std::int64_t>((data[c].rows.size() + 3) / 4);
      for (std::int64_t number = 0; number < count; ++number) mine.push_back(rows.tokens(batches.at(number)));
    }
    const auto longest = [&](std::size_t step) {
      std::size_t most = 0;
      for (const auto& mine : tokens) most = std::max(most, step < mine.size() ? mine[step] : 0);
      return most;
    };
    const auto waste = [&] {
      double sum = 0;
      for (std::size_t step = 0; step < 16; ++step) {
        for (const auto& mine : tokens) sum += static_cast<double>(step < mine.size() ? longest(step) - mine[step] : 0);
      }
      return sum;
    };
    for (const auto& mine : tokens)
      all += static_cast<double>(std::accumulate(mine.begin(), mine.end(), std::size_t{0}));
    wasted += waste();
    for (std::size_t c = 0; c < tokens.size(); ++c) {
      RandomStream({1, "test", round, c}).shuffle(std::span(tokens[c]));
    }
    wasted_by_chance += waste();
  }
  EXPECT_LT(wasted, 0.6 * wasted_by_chance) << "of " << all;
}

TEST(ClientBatches, NoRoundPrefersLongBatchesFirst) {
  const Rows rows;
  const ClientData data = rows.client(0, 64);
  double first = 0, mean = 0;
  constexpr std::uint64_t kRounds = 400;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    ClientBatches batches({data, 1, 4, 1, round});
    first += static_cast<double>(rows.tokens(batches.at(0)));
  }
  for (const std::uint32_t row : data.rows) mean += 4.0 * static_cast<double>(rows.encoded->length(row)) / 64;
  EXPECT_NEAR(first / kRounds, mean, 0.03 * mean);
}

}  // namespace
}  // namespace chorus::inline trainer
