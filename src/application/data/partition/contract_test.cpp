// The contract of every registered partitioner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

#include "application/data/partition/partitioner.h"
#include "application/data/partition/test_population.h"
#include "application/data/partition/text_features.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline partition {
namespace {

/// Features that make clustering cheap: a circle.
FeatureMatrix circle(std::size_t rows) {
  FeatureMatrix matrix{rows, 2, {}};
  for (std::size_t i = 0; i < rows; ++i) {
    matrix.values.push_back(static_cast<float>(std::cos(static_cast<double>(i))));
    matrix.values.push_back(static_cast<float>(std::sin(static_cast<double>(i))));
  }
  return matrix;
}

std::unique_ptr<Partitioner> configured(const std::string& name, const std::vector<std::string>& settings) {
  Choice<Partitioners> choice(name);
  ConfigDocument::parse("", "test", settings).fill([&](ConfigVisitor& v) { choice.describe(v); });
  return choice.make();
}

/// The settings under which a partitioner takes any number of clients.
std::vector<std::string> tolerant(const std::string& name) {
  if (name == "label_dirichlet") return {"remainder=spread"};
  if (name == "feature_clusters") return {"remainder=spread", "restarts=1", "clusters=4"};
  if (name == "kmeans") return {"restarts=1"};
  if (name == "quantity_dirichlet" || name == "label_quantity") return {"min_size=0"};
  return {};
}

class EveryPartitioner : public testing::TestWithParam<std::string> {};

TEST(Partitioners, AreAllRegistered) {
  EXPECT_THAT(Partitioners::names(),
              testing::ElementsAre("class_dirichlet", "feature_clusters", "iid", "kmeans", "label_dirichlet",
                                   "label_quantity", "natural", "quantity_dirichlet", "shards", "temporal", "uniform"));
  EXPECT_THAT([] { Partitioners::make("label_dirichlte"); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("did you mean 'label_dirichlet'?")));
}

TEST_P(EveryPartitioner, GivesEachExampleToExactlyOneClient) {
  const bool clusters = GetParam() == "kmeans";
  for (const std::size_t clients : {1, 2, 7, 100, 1000, 5000}) {
    if (clusters && clients > 100) continue;  // k-means with thousands of clusters is too slow
    TestPopulation population(10'007, 2'003, 11, clients);
    const GivenFeatures features(circle(12'010), "circle");
    population.view.features = &features;
    const auto partitioner = configured(GetParam(), tolerant(GetParam()));
    for (const TestMix mix : {TestMix::kIndependent, TestMix::kSame}) {
      const Partition partition = partitioner->make(population.view, {.clients = clients, .seed = 3, .test_mix = mix});
      ASSERT_EQ(partition.train.clients(), clients);
      ASSERT_EQ(partition.test.clients(), clients);
      EXPECT_EQ(partition.train.total(), 10'007u);
      EXPECT_TRUE(check_against_data(partition, 12'010, "test").exact());
      for (std::size_t c = 0; c < clients; ++c) {
        for (const ExampleId id : partition.train[c]) ASSERT_LT(id, 10'007u);
        EXPECT_TRUE(std::is_sorted(partition.train[c].begin(), partition.train[c].end()));
      }
    }
  }
}

TEST_P(EveryPartitioner, SameSeedSamePartitionOtherSeedAnother) {
  TestPopulation population(2000, 400, 5, 20);
  const GivenFeatures features(circle(2400), "circle");
  population.view.features = &features;
  const auto partitioner = configured(GetParam(), tolerant(GetParam()));
  const Partition a = partitioner->make(population.view, {.clients = 20, .seed = 1});
  const Partition b = partitioner->make(population.view, {.clients = 20, .seed = 1});
  const Partition c = partitioner->make(population.view, {.clients = 20, .seed = 2});
  EXPECT_EQ(a.train, b.train);
  EXPECT_EQ(a.test, b.test);
  const bool drawn = GetParam() != "natural" && GetParam() != "temporal";
  EXPECT_EQ(a.train != c.train, drawn);
  EXPECT_FALSE(a.info.group.empty());
  EXPECT_FALSE(a.info.method.empty());
}

TEST_P(EveryPartitioner, TakesSplitsInAnyOrderOfIds) {
  // Test examples in the middle, some examples in neither split.
  TestPopulation population(300, 0, 3, 10);
  population.train.clear();
  for (ExampleId i = 0; i < 300; ++i) {
    if (i % 10 == 9) continue;
    (i % 3 == 0 ? population.test : population.train).push_back(i);
  }
  population.view.train = population.train;
  population.view.test = population.test;
  const GivenFeatures features(circle(300), "circle");
  population.view.features = &features;
  const Partition partition =
      configured(GetParam(), tolerant(GetParam()))->make(population.view, {.clients = 10, .seed = 1});
  const Coverage coverage = check_against_data(partition, 300, "test");
  EXPECT_EQ(coverage.repeated, 0u);
  EXPECT_EQ(coverage.missing, 30u);
  for (std::size_t c = 0; c < 10; ++c) {
    for (const ExampleId id : partition.test[c]) EXPECT_EQ(id % 3, 0u);
    for (const ExampleId id : partition.train[c]) EXPECT_NE(id % 3, 0u);
  }
}

TEST_P(EveryPartitioner, MoreClientsThanExamples) {
  TestPopulation population(60, 20, 4, 80);
  const GivenFeatures features(circle(80), "circle");
  population.view.features = &features;
  const std::size_t clients = GetParam() == "natural" ? 80 : 500;
  try {
    const Partition partition = configured(GetParam(), {})->make(population.view, {.clients = clients});
    EXPECT_TRUE(check_against_data(partition, 80, "test").exact());
    EXPECT_THAT(GetParam(), testing::AnyOf("class_dirichlet", "iid", "uniform", "shards", "natural", "temporal"));
  } catch (const ConfigError& error) {
    EXPECT_THAT(GetParam(), testing::AnyOf("label_dirichlet", "feature_clusters", "quantity_dirichlet",
                                           "label_quantity", "kmeans"));
    EXPECT_THAT(error.what(), testing::HasSubstr("500"));
    EXPECT_THAT(error.what(), testing::HasSubstr("fewer"));
  }
}

TEST_P(EveryPartitioner, EmptyDataGivesEmptyClientsOrASentence) {
  TestPopulation population(0, 0, 1);
  const GivenFeatures features(circle(0), "circle");
  population.view.features = &features;
  if (GetParam() == "natural") {
    EXPECT_EQ(configured("natural", {"by=label"})->make(population.view, {}).clients(), 0u);
    return;
  }
  const Partition partition = configured(GetParam(), {})->make(population.view, {.clients = 3});
  EXPECT_EQ(partition.clients(), 3u);
  EXPECT_EQ(partition.train.total() + partition.test.total(), 0u);
}

TEST_P(EveryPartitioner, AMillionExamplesOver100000ClientsInSeconds) {
  if (GetParam() == "kmeans") GTEST_SKIP() << "100,000 clusters are not what k-means is for";
  const std::size_t clients = 100'000;
  TestPopulation population(900'000, 100'000, 20, clients);
  const GivenFeatures features(circle(1'000'000), "circle");
  population.view.features = &features;
  const std::clock_t start = std::clock();
  const Partition partition =
      configured(GetParam(), tolerant(GetParam()))->make(population.view, {.clients = clients, .seed = 1});
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_TRUE(check_against_data(partition, 1'000'000, "test").exact());
  EXPECT_LT(seconds, 20) << "this is far from seconds";
}

INSTANTIATE_TEST_SUITE_P(Registered, EveryPartitioner, testing::ValuesIn(Partitioners::names()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace chorus::inline partition
