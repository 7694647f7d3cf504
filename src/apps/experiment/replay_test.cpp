#include "apps/experiment/replay.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

namespace chorus::inline experiment {
namespace {

/// Segments whose clients have so many examples each; ids rise by segment, then by client.
std::vector<ClientLists> segments_of(const std::vector<std::vector<std::size_t>>& sizes) {
  std::vector<ClientLists> segments;
  ExampleId next = 0;
  for (const auto& segment : sizes) {
    ClientLists lists;
    for (const std::size_t size : segment) {
      std::vector<ExampleId> ids(size);
      std::iota(ids.begin(), ids.end(), next);
      next += static_cast<ExampleId>(size);
      lists.append(ids);
    }
    segments.push_back(std::move(lists));
  }
  return segments;
}

// An example of client k pulls towards b_k, one of the second segment towards b_k + 1: what clients train on decides
// the rounds of FedAvg.
TEST(Replay, EqualsTheValuesOfAnotherImplementation) {
  std::ifstream file(CHORUS_SOURCE_DIR "/tests/golden/personal_rounds.json");
  const auto golden = nlohmann::json::parse(file).at("replay").at("model");
  const std::vector<ClientLists> fresh = segments_of({{4, 6, 10}, {4, 6, 10}});
  std::vector<ClientLists> segments = fresh;
  add_replay(segments, 3, 7);
  const double curvature[] = {0.5, 1, 2}, target[] = {-1, 0.5, 2};
  const int steps[] = {1, 3, 5};
  at::Tensor model = torch::linspace(-1, 1, 4, at::kDouble);
  ASSERT_EQ(golden.size(), 4U);
  for (std::size_t round = 0; round < 4; ++round) {
    const ClientLists& lists = segments[round / 2];
    at::Tensor sum = torch::zeros({4}, at::kDouble);
    for (std::size_t k = 0; k < 3; ++k) {
      double pull = 0;
      for (const ExampleId id : lists[k]) pull += target[k] + (id >= fresh[0].total() ? 1 : 0);
      const at::Tensor centre = torch::arange(4, at::kDouble) / 10 + pull / static_cast<double>(lists.size_of(k));
      at::Tensor w = model.clone();
      for (int step = 0; step < steps[k]; ++step) w -= 0.1 * curvature[k] * (w - centre);
      sum += w * static_cast<double>(lists.size_of(k));
    }
    model = sum / static_cast<double>(lists.total());
    const at::Tensor expected = torch::tensor(golden[round].get<std::vector<double>>(), at::kDouble);
    EXPECT_TRUE(torch::allclose(model, expected, 1e-12, 1e-12)) << round << model << expected;
  }
}

TEST(Replay, KeepsOldExamplesOfTheSameClientOnly) {
  const std::vector<ClientLists> fresh = segments_of({{8, 5}, {8, 0}, {8, 2}});
  std::vector<ClientLists> segments = fresh;
  add_replay(segments, 6, 1);
  EXPECT_EQ(segments[0], fresh[0]);
  EXPECT_EQ(segments[1].size_of(0), 8U + 6U);
  EXPECT_EQ(segments[1].size_of(1), 0U) << "nothing new, so it does not train";
  EXPECT_EQ(segments[2].size_of(0), 8U + 6U);
  EXPECT_EQ(segments[2].size_of(1), 2U + 5U) << "there are only five";
  std::set<std::size_t> from;
  for (std::size_t s = 1; s < 3; ++s) {
    for (std::size_t client = 0; client < 2; ++client) {
      std::set<ExampleId> seen;
      for (const ExampleId id : segments[s][client]) {
        EXPECT_TRUE(seen.insert(id).second) << "twice";
        bool mine = false;
        for (std::size_t earlier = 0; earlier <= s; ++earlier) {
          for (const ExampleId own : fresh[earlier][client]) {
            if (own != id) continue;
            mine = true;
            if (s == 2 && client == 0) from.insert(earlier);
          }
        }
        EXPECT_TRUE(mine) << id;
      }
    }
  }
  EXPECT_EQ(from.size(), 3U) << "of six old examples all came from one segment";
  std::vector<ClientLists> again = fresh, other = fresh, none = fresh;
  add_replay(again, 6, 1);
  add_replay(other, 6, 2);
  add_replay(none, 0, 1);
  EXPECT_EQ(again, segments);
  EXPECT_NE(other, segments);
  EXPECT_EQ(none, fresh);
}

}  // namespace
}  // namespace chorus::inline experiment
