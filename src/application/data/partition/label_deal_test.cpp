#include "application/data/partition/label_deal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "application/data/partition/dynamic_fill.h"
#include "application/data/partition/test_population.h"

namespace chorus::inline partition {
namespace {

struct FillCase {
  std::vector<std::size_t> used, sizes;
  std::size_t need, label;
  std::vector<std::size_t> fill;
};

// Outputs of FedNLP's function.
TEST(DynamicFill, EqualsFedNlp) {
  const std::vector<FillCase> cases{
      {{5, 0, 0}, {5, 10, 30}, 8, 0, {0, 2, 6}},           {{5, 9, 30}, {5, 10, 30}, 4, 0, {0, 1, 0}},
      {{5, 10, 30}, {5, 10, 30}, 4, 0, {0, 0, 0}},         {{4, 2, 1, 0}, {4, 4, 4, 4}, 5, 0, {0, 2, 2, 1}},
      {{10, 0, 0, 0}, {10, 1, 1, 98}, 7, 0, {0, 1, 1, 5}}, {{3, 3, 3}, {3, 6, 5}, 9, 0, {0, 3, 2}},
  };
  for (const FillCase& c : cases) {
    std::vector<std::size_t> remaining;
    for (std::size_t k = 0; k < c.used.size(); ++k) remaining.push_back(c.sizes[k] - c.used[k]);
    EXPECT_EQ(dynamic_fill(remaining, c.need, c.label), c.fill) << "need " << c.need;
  }
}

TEST(DynamicFill, GivesWhatIsNeededAsLongAsThereIsAny) {
  RandomStream stream({.seed = 3, .purpose = "test.fill"});
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::size_t> remaining(1 + stream.below(8));
    for (std::size_t& r : remaining) r = stream.below(30);
    const std::size_t label = stream.below(remaining.size());
    const std::size_t need = stream.below(60);
    const std::vector<std::size_t> given = dynamic_fill(remaining, need, label);
    std::size_t available = 0, sum = 0;
    for (std::size_t k = 0; k < given.size(); ++k) {
      if (k != label) available += remaining[k];
      EXPECT_LE(given[k], remaining[k]);
      sum += given[k];
    }
    EXPECT_EQ(given[label], 0u);
    EXPECT_EQ(sum, std::min(need, available));
  }
}

std::vector<std::size_t> sizes_of(const std::vector<ClientId>& owners, std::size_t clients) {
  std::vector<std::size_t> sizes(clients);
  for (const ClientId owner : owners) ++sizes[owner];
  return sizes;
}

TEST(LabelDeal, SizesAreExactWhateverAlpha) {
  const TestPopulation population(1037, 0, 20);
  for (const double alpha : {1e-8, 1e-3, 0.1, 1.0, 10.0, 1e6}) {
    std::vector<std::size_t> sizes(10, 103);
    sizes.back() += 7;
    const auto owners = deal_label_mixes({population.labels, 20, sizes, alpha, 1, 0});
    EXPECT_EQ(sizes_of(owners, 10), sizes) << "alpha " << alpha;
  }
}

TEST(LabelDeal, TinyAlphaGivesOneClassAClient) {
  // Two classes of 500 and clients of 50: a one-hot draw takes 50 of one class until that class has run out.
  std::vector<std::int32_t> labels(1000);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 2);
  const std::vector<std::size_t> sizes(20, 50);
  const auto owners = deal_label_mixes({labels, 2, sizes, 1e-9, 5, 0});
  for (ClientId client = 0; client < 20; ++client) {
    std::size_t ones = 0;
    for (std::size_t i = 0; i < labels.size(); ++i)
      ones += owners[i] == client ? static_cast<std::size_t>(labels[i]) : 0;
    EXPECT_TRUE(ones == 0 || ones == 50) << "client " << client << " has " << ones << " of class 1";
  }
}

TEST(LabelDeal, LargeAlphaGivesTheDataMix) {
  const TestPopulation population(20000, 0, 4);
  const std::vector<std::size_t> sizes(10, 2000);
  const auto owners = deal_label_mixes({population.labels, 4, sizes, 1e9, 5, 0});
  std::vector<double> global(4);
  for (const std::int32_t label : population.labels) global[static_cast<std::size_t>(label)] += 1;
  for (ClientId client = 0; client < 9; ++client) {
    std::vector<double> mine(4);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (owners[i] == client) mine[static_cast<std::size_t>(population.labels[i])] += 1;
    }
    for (std::size_t l = 0; l < 4; ++l) EXPECT_NEAR(mine[l] / 2000, global[l] / 20000, 0.001);
  }
}

TEST(LabelDeal, LabelsNobodyHasDoNotMatter) {
  std::vector<std::int32_t> labels(100, 3);
  const std::vector<std::size_t> sizes(5, 20);
  EXPECT_EQ(sizes_of(deal_label_mixes({labels, 10, sizes, 0.5, 1, 0}), 5), sizes);
}

}  // namespace
}  // namespace chorus::inline partition
