#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "application/data/partition/feature_clusters.h"
#include "application/data/partition/kmeans.h"
#include "application/data/partition/test_population.h"
#include "application/data/partition/text_features.h"
#include "application/data/partition/truncated_svd.h"
#include "application/data/partition/words.h"
#include "core/base/error.h"

namespace chorus::inline partition {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string scratch;
  for_each_word(text, scratch, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(Words, SplitsWhatPeopleWrite) {
  EXPECT_THAT(words_of("Don't PANIC, it's 42!"), testing::ElementsAre("don't", "panic", "it's", "42"));
  EXPECT_THAT(words_of("  'quoted' Zürich—北京 "), testing::ElementsAre("quoted", "zürich—北京"));
  EXPECT_THAT(words_of(""), testing::IsEmpty());
  EXPECT_THAT(words_of("...'"), testing::IsEmpty());
}

TEST(Tfidf, EqualsTheFormula) {
  const std::vector<std::string> texts{"apple banana apple", "banana cherry", "apple", ""};
  const SparseMatrix matrix = tfidf([&](std::size_t i, std::string&) { return std::string_view(texts[i]); }, 4,
                                    {.min_documents = 1, .max_share = 1.0});
  ASSERT_EQ(matrix.columns, 3u);
  ASSERT_EQ(matrix.rows(), 4u);
  // apple is in 2 of 4 texts, banana in 2, cherry in 1: idf = ln(5 / (1 + df)) + 1.
  const double common = std::log(5.0 / 3) + 1, rare = std::log(5.0 / 2) + 1;
  const double a = (1 + std::log(2.0)) * common, b = common;
  EXPECT_NEAR(matrix.value[0], a / std::hypot(a, b), 1e-6);
  EXPECT_NEAR(matrix.value[1], b / std::hypot(a, b), 1e-6);
  EXPECT_NEAR(matrix.value[3], rare / std::hypot(common, rare), 1e-6);
  EXPECT_EQ(matrix.begin[4], matrix.begin[3]);
}

SparseMatrix dense_rows(const std::vector<std::vector<float>>& rows) {
  SparseMatrix matrix;
  matrix.columns = rows[0].size();
  for (const auto& row : rows) {
    for (std::size_t j = 0; j < row.size(); ++j) {
      if (row[j] == 0) continue;
      matrix.column.push_back(static_cast<std::uint32_t>(j));
      matrix.value.push_back(row[j]);
    }
    matrix.begin.push_back(matrix.column.size());
  }
  return matrix;
}

TEST(TruncatedSvd, FindsKnownSingularValues) {
  // A = diag(5, 3, 2, 1) rotated in rows by a Householder reflection, which leaves its singular values alone.
  const std::vector<float> v{0.5F, 0.5F, 0.5F, 0.5F};
  const std::vector<float> s{5, 3, 2, 1};
  std::vector<std::vector<float>> rows(4, std::vector<float>(4));
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) rows[i][j] = ((i == j ? 1.0F : 0.0F) - 2 * v[i] * v[j]) * s[j];
  }
  const TruncatedSvd svd = truncated_svd(dense_rows(rows), {.rank = 3}, 1);
  ASSERT_EQ(svd.singular.size(), 3u);
  EXPECT_NEAR(svd.singular[0], 5, 1e-4);
  EXPECT_NEAR(svd.singular[1], 3, 1e-4);
  EXPECT_NEAR(svd.singular[2], 2, 1e-4);
  // U S keeps the inner products of rows up to the part that was cut off (1^2).
  double gram = 0, exact = 0;
  for (std::size_t j = 0; j < 3; ++j) gram += static_cast<double>(svd.projected.row(0)[j]) * svd.projected.row(0)[j];
  for (std::size_t j = 0; j < 4; ++j) exact += static_cast<double>(rows[0][j]) * rows[0][j];
  EXPECT_NEAR(gram, exact - 0.25, 1e-3);
}

TEST(TruncatedSvd, TakesMatricesSmallerThanItsRank) {
  const TruncatedSvd svd = truncated_svd(dense_rows({{1, 0}, {2, 0}, {0, 0}}), {.rank = 64}, 1);
  EXPECT_EQ(svd.projected.columns, 2u);
  EXPECT_NEAR(svd.singular[0], std::sqrt(5.0), 1e-5);
  EXPECT_NEAR(svd.singular[1], 0, 1e-5);
  const SparseMatrix nothing;
  EXPECT_EQ(truncated_svd(nothing, {}, 1).projected.columns, 0u);
}

FeatureMatrix blobs(std::size_t rows, std::size_t centres) {
  FeatureMatrix matrix{rows, 3, {}};
  RandomStream stream({.seed = 4, .purpose = "test.blobs"});
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      const double centre = i % centres == j ? 20.0 : (i % centres) / 3 == 1 ? -20.0 : 0.0;
      matrix.values.push_back(static_cast<float>(centre + stream.normal()));
    }
  }
  return matrix;
}

TEST(KMeans, RecoversSeparateBlobs) {
  const FeatureMatrix matrix = blobs(300, 4);
  const KMeans result = kmeans(matrix, {.clusters = 4}, 1);
  std::map<std::size_t, std::set<std::int32_t>> found;
  for (std::size_t i = 0; i < 300; ++i) found[i % 4].insert(result.assignment[i]);
  std::set<std::int32_t> all;
  for (const auto& [blob, clusters] : found) {
    EXPECT_EQ(clusters.size(), 1u);
    all.insert(*clusters.begin());
  }
  EXPECT_EQ(all.size(), 4u);
  // Unit variance in three dimensions around each centre.
  EXPECT_NEAR(result.inertia / 300, 3, 0.5);
  EXPECT_EQ(kmeans(matrix, {.clusters = 4}, 1).assignment, result.assignment);
}

TEST(KMeans, SurvivesFewerDistinctRowsThanClusters) {
  const FeatureMatrix matrix{6, 1, {1, 1, 1, 2, 2, 2}};
  const KMeans result = kmeans(matrix, {.clusters = 4}, 1);
  EXPECT_NEAR(result.inertia, 0, 1e-12);
  EXPECT_NE(result.assignment[0], result.assignment[5]);
  EXPECT_EQ(kmeans(matrix, {.clusters = 1}, 1).assignment, std::vector<std::int32_t>(6, 0));
}

/// Texts of four topics with their own words and common ones.
std::vector<std::string> topic_texts(std::size_t count) {
  const std::vector<std::vector<std::string>> topics{{"goal", "match", "team", "league", "coach"},
                                                     {"orbit", "rocket", "moon", "launch", "engine"},
                                                     {"recipe", "butter", "flour", "oven", "sugar"},
                                                     {"court", "judge", "trial", "law", "appeal"}};
  RandomStream stream({.seed = 8, .purpose = "test.texts"});
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text;
    for (int w = 0; w < 12; ++w) {
      const bool common = stream.uniform() < 0.4;
      text += common ? "word" + std::to_string(stream.below(8)) : topics[i % 4][stream.below(5)];
      text += ' ';
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(FeatureClusters, FindsTopicsAndSkewsThem) {
  TestPopulation population(800, 200, 4);
  const std::vector<std::string> texts = topic_texts(1000);
  const TextFeatures features([&](std::size_t i, std::string&) { return std::string_view(texts[i]); }, 1000, 1);
  population.view.features = &features;
  const Partition partition =
      FeatureClusters({.alpha = 0.05, .clusters = 4}).make(population.view, {.clients = 20, .seed = 2});
  EXPECT_TRUE(check_against_data(partition, 1000, "test").exact());
  EXPECT_EQ(partition.info.group, "niid_cluster_clients=20_alpha=0.05");
  EXPECT_EQ(partition.info.choices.at("features"), "tfidf_svd");
  std::map<std::pair<std::size_t, std::int32_t>, int> joint;
  for (std::size_t i = 0; i < 1000; ++i) ++joint[{i % 4, partition.clusters[i]}];
  int agree = 0;
  for (std::size_t topic = 0; topic < 4; ++topic) {
    int most = 0;
    for (std::int32_t k = 0; k < 4; ++k) most = std::max(most, joint[{topic, k}]);
    agree += most;
  }
  EXPECT_GT(agree, 950);
  // alpha 0.05: most of the first client's examples are of one cluster.
  std::vector<std::size_t> counts(4);
  for (const ExampleId id : partition.train[0]) ++counts[static_cast<std::size_t>(partition.clusters[id])];
  EXPECT_GT(*std::max_element(counts.begin(), counts.end()), 25u);

  const Partition direct = KMeansPartition({}).make(population.view, {.clients = 4, .seed = 2});
  EXPECT_TRUE(check_against_data(direct, 1000, "test").exact());
  for (const ExampleId id : direct.train[2]) EXPECT_EQ(direct.clusters[id], 2);
}

TEST(FeatureClusters, SaysWhatIsWrong) {
  TestPopulation population(80, 20, 4);
  EXPECT_THAT([&] { FeatureClusters({}).make(population.view, {.clients = 2}); },
              ThrowsMessage<DataError>(HasSubstr("but the data has none")));
  const GivenFeatures few(FeatureMatrix{3, 1, {1, 2, 3}}, "embeddings");
  population.view.features = &few;
  EXPECT_THAT([&] { FeatureClusters({}).make(population.view, {.clients = 2}); },
              ThrowsMessage<DataError>(HasSubstr("3 rows for 100 examples")));
  FeatureMatrix matrix{100, 1, std::vector<float>(100, 1.0F)};
  matrix.values[7] = NAN;
  const GivenFeatures broken(matrix, "embeddings");
  population.view.features = &broken;
  EXPECT_THAT([&] { FeatureClusters({}).make(population.view, {.clients = 2}); },
              ThrowsMessage<DataError>(HasSubstr("example 7")));
  EXPECT_THAT([&] { FeatureClusters({.clusters = 101}).make(population.view, {.clients = 2}); },
              ThrowsMessage<ConfigError>(HasSubstr("101 clusters, but only 100 example(s)")));
}

}  // namespace
}  // namespace chorus::inline partition
