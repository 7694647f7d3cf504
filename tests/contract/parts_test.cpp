// Devices of different size that train parts of one network, on clients whose training has a closed form.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>

#include "algorithm/federated/heterofl.h"
#include "tests/contract/personal_clients.h"

namespace chorus::inline contract {
namespace {

using quadratic::World;

/// Parts of the quadratic clients' vector of four: its leading elements.
struct LeadingElements : Variants {
  Variant whole() const override { return {1, 4}; }
  int unit() const override { return 1; }
  at::Tensor places(const Variant& variant) const override {
    return torch::arange(variant.width < 0 ? 4 : variant.width, at::kLong);
  }
};

/// Two layers of two elements: the first `width` elements of the first `depth` layers.
struct TwoLayers : Variants {
  Variant whole() const override { return {2, 2}; }
  int unit() const override { return 1; }
  at::Tensor places(const Variant& variant) const override {
    std::vector<std::int64_t> places;
    for (int layer = 0; layer < (variant.depth < 0 ? 2 : variant.depth); ++layer) {
      for (int i = 0; i < (variant.width < 0 ? 2 : variant.width); ++i) places.push_back(2 * layer + i);
    }
    return torch::tensor(places, at::kLong);
  }
};

/// Quadratic clients of different size, which train the elements that they are sent.
struct UnequalDevices : Federation {
  UnequalDevices(const Variants& variants, std::vector<double> capacities) : variants_(variants) {
    std::vector<RosterEntry> entries;
    for (ClientId id = 0; id < capacities.size(); ++id) {
      entries.push_back({.id = id, .examples = three_unequal()[id].examples});
      entries.back().capacity = capacities[id];
    }
    roster_ = Roster(std::move(entries));
  }
  const Roster& roster() const override { return roster_; }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    std::vector<Reply> replies;
    for (const ClientId id : cohort) {
      const quadratic::Client client = three_unequal()[id];
      const at::Tensor model = request.body.tensor("model");
      const at::Tensor centre = centre_of(client.target).index_select(0, variants_.places(read_variant(request.body)));
      at::Tensor w = model.clone();
      for (int step = 0; step < client.steps; ++step) {
        w -= 0.1 * client.curvature * (w - centre);
      }
      Reply reply{.client = id, .slot = replies.size()};
      reply.body.tensors["update"] = w - model;
      reply.body.numbers = {{"examples", client.examples}, {"loss", 1}};
      replies.push_back(std::move(reply));
    }
    return Replies([replies = std::move(replies), next = std::size_t{0}]() mutable -> std::optional<Reply> {
      if (next == replies.size()) return std::nullopt;
      return std::move(replies[next++]);
    });
  }

 private:
  const Variants& variants_;
  Roster roster_;
};

/// Rounds of HeteroFL, whose models must be those of another implementation.
void expect_parts(const Variants& variants, const std::vector<double>& capacities, const std::string& options,
                  const std::string& golden_name) {
  UnequalDevices devices(variants, capacities);
  const auto mean = Aggregations::make("mean");
  const std::vector<Member> cohort{{0, 1}, {1, 1}, {2, 1}};
  const auto algorithm = quadratic::make_algorithm("heterofl", World{}, options);
  at::Tensor model = torch::linspace(-1, 1, 4, at::kFloat);
  std::uint64_t round = 0;
  const nlohmann::json golden = golden_rounds();
  for (const auto& expected : golden.at(golden_name).at("model")) {
    RoundInput input{devices, *mean, cohort, model, ++round, 10};
    input.variants = &variants;
    algorithm->round(input);
    EXPECT_TRUE(about_equal(model, vector_of(expected))) << golden_name << model << vector_of(expected);
  }
}

TEST(Parts, PartsByWidthEqualTheValuesOfAnotherImplementation) {
  expect_parts(LeadingElements(), {0.5, 1, 0.75}, "{widths: [0.5, 0.75, 1]}", "heterofl");
}

TEST(Parts, PartsByDepthEqualTheValuesOfAnotherImplementation) {
  expect_parts(TwoLayers(), {0.5, 1, 0.6}, "{widths: [1], depths: [0.5, 1]}", "depth");
  expect_parts(TwoLayers(), {0.25, 1, 0.5}, "{widths: [0.5, 1], depths: [0.5, 1]}", "depth and width");
}

// FjORD's ordered dropout: each client draws a part up to the largest that fits, every one equally often.
TEST(Parts, FjordEqualsTheValuesOfAnotherImplementationWhateverIsDrawn) {
  const LeadingElements variants;
  const std::vector<double> capacities{0.5, 0.75, 1};
  UnequalDevices devices(variants, capacities);
  const auto mean = Aggregations::make("mean");
  const std::vector<Member> cohort{{0, 1}, {1, 1}, {2, 1}};
  const HeteroFl algorithm({.widths = {0.5, 0.75, 1}, .ordered = true});
  const nlohmann::json golden = golden_rounds().at("fjord");
  const auto draws = golden.at("sizes").get<std::vector<std::vector<int>>>();
  std::vector<int> counts(draws.size(), 0);
  constexpr int kManyRounds = 600;
  for (std::uint64_t round = 1; round <= kManyRounds; ++round) {
    std::vector<int> sizes;
    for (const RosterEntry& client : devices.roster().members()) {
      sizes.push_back(algorithm.part_for(client, algorithm.parts(variants), 0, round)->variant.width);
    }
    const auto drawn = static_cast<std::size_t>(std::find(draws.begin(), draws.end(), sizes) - draws.begin());
    ASSERT_LT(drawn, draws.size()) << "a part that does not fit: " << testing::PrintToString(sizes);
    ++counts[drawn];
    const at::Tensor model = torch::linspace(-1, 1, 4, at::kFloat);
    RoundInput input{devices, *mean, cohort, model, round, kManyRounds};
    input.variants = &variants;
    HeteroFl(algorithm).round(input);
    ASSERT_TRUE(about_equal(model, vector_of(golden.at("model").at(drawn)))) << round << model;
  }
  // 100 of each are expected, with a standard deviation of 9.1.
  for (const int count : counts) EXPECT_NEAR(count, kManyRounds / 6, 41) << testing::PrintToString(counts);
}

}  // namespace
}  // namespace chorus::inline contract
