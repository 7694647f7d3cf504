#include "application/data/partition/feature_clusters.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "application/data/partition/kmeans.h"
#include "application/data/partition/label_deal.h"
#include "application/data/partition/label_dirichlet.h"
#include "core/base/error.h"

namespace chorus::inline partition {
namespace {

std::vector<std::int32_t> cluster(const Population& population, std::size_t clusters, std::int64_t restarts,
                                  std::uint64_t seed) {
  if (restarts < 1) throw ConfigError(fmt::format("restarts is {}; it must be at least 1", restarts));
  if (population.features == nullptr) {
    throw DataError("this partitioner clusters feature vectors, but the data has none; use another partitioner");
  }
  if (population.examples == 0) return {};
  if (clusters > population.examples) {
    throw ConfigError(
        fmt::format("{} clusters, but only {} example(s); use fewer clusters", clusters, population.examples));
  }
  const FeatureMatrix features = population.features->features();
  if (features.rows != population.examples) {
    throw DataError(fmt::format("the feature matrix has {} rows for {} examples", features.rows, population.examples));
  }
  for (std::size_t i = 0; i < features.values.size(); ++i) {
    if (!std::isfinite(features.values[i])) {
      throw DataError(fmt::format("the features of example {} are not finite", i / features.columns));
    }
  }
  return kmeans(features, {.clusters = clusters, .restarts = static_cast<std::size_t>(restarts)}, seed).assignment;
}

}  // namespace

void FeatureClustersConfig::describe(ConfigVisitor& v) {
  v.field("alpha", alpha, "concentration of the cluster mixes").above(0);
  v.field("clusters", clusters, "number of k-means clusters").at_least(1);
  v.field("restarts", restarts, "k-means restarts; the best one is kept").at_least(1);
  v.field("remainder", remainder, "who gets the remaining examples: last (FedNLP) or spread")
      .one_of({"last", "spread"});
}

void KMeansPartitionConfig::describe(ConfigVisitor& v) {
  v.field("restarts", restarts, "k-means restarts; the best one is kept").at_least(1);
}

FeatureClusters::FeatureClusters(FeatureClustersConfig config) : config_(std::move(config)) {
  check_positive(config_.alpha, "alpha");
  if (config_.clusters < 1) throw ConfigError(fmt::format("clusters is {}; it must be at least 1", config_.clusters));
}

Partition FeatureClusters::make(const Population& population, const PartitionRequest& request) const {
  check_clients(request);
  check_population(population);
  // Sizes first: report a wrong number of clients before the expensive clustering.
  equal_sizes({population.train, 0, "train"}, request.clients, config_.remainder);
  std::vector<std::int32_t> clusters =
      cluster(population, static_cast<std::size_t>(config_.clusters), config_.restarts, request.seed);
  const auto deal = [&](const SplitView& view) {
    const std::vector<std::size_t> sizes = equal_sizes(view, request.clients, config_.remainder);
    const std::vector<std::int32_t> labels = gather(clusters, view.ids);
    return deal_label_mixes(
        {labels, static_cast<std::size_t>(config_.clusters), sizes, config_.alpha, request.seed, view.split});
  };
  Partition partition = SplitDealer{population, request, clusters, deal}.run();
  partition.info.method = "feature_clusters";
  partition.info.group = fmt::format("niid_cluster_clients={}_alpha={}", request.clients, name_number(config_.alpha));
  partition.info.numbers["alpha"] = config_.alpha;
  partition.info.numbers["clusters"] = static_cast<double>(config_.clusters);
  partition.info.choices["features"] = population.features->name();
  partition.info.choices["remainder"] = config_.remainder;
  partition.clusters = std::move(clusters);
  return partition;
}

Partition KMeansPartition::make(const Population& population, const PartitionRequest& request) const {
  check_clients(request);
  check_population(population);
  std::vector<std::int32_t> clusters = cluster(population, request.clients, config_.restarts, request.seed);
  const auto lists = [&](std::span<const ExampleId> ids) {
    std::vector<ClientId> owners(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) owners[i] = static_cast<ClientId>(clusters[ids[i]]);
    return ClientLists::from_owners(owners, ids, request.clients);
  };
  Partition partition;
  partition.train = lists(population.train);
  partition.test = lists(population.test);
  partition.info.method = "kmeans";
  partition.info.seed = request.seed;
  partition.info.group = fmt::format("kmeans_clusters={}", request.clients);
  partition.info.choices["features"] = population.features->name();
  partition.clusters = std::move(clusters);
  return partition;
}

namespace {

const Registration<Partitioners, FeatureClustersConfig> kRegisteredFeatureClusters{
    "feature_clusters", "feature skew: k-means clusters as labels of label_dirichlet (FedNLP, Lin et al. 2022)",
    [](const FeatureClustersConfig& config) { return std::make_unique<FeatureClusters>(config); }};
const Registration<Partitioners, KMeansPartitionConfig> kRegisteredKmeans{
    "kmeans", "one client per k-means cluster of the features",
    [](const KMeansPartitionConfig& config) { return std::make_unique<KMeansPartition>(config); }};

}  // namespace
}  // namespace chorus::inline partition
