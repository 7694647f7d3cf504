#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "application/data/partition/partitioner.h"

namespace chorus::inline partition {

struct FeatureClustersConfig {
  double alpha = 1.0;              ///< concentration of the cluster mixes; > 0
  std::int64_t clusters = 10;      ///< k of k-means; FedNLP: wikiner 10, squad 30, cornell 50
  std::int64_t restarts = 10;      ///< k-means restarts; the best one is kept
  std::string remainder = "last";  ///< who gets the remaining N mod n examples: last (FedNLP) or spread

  void describe(ConfigVisitor& v);
};

/// Feature skew (Lin et al. 2022, section 3.2): clusters the feature vectors of train and test together by k-means,
/// then uses clusters as labels of label Dirichlet. The clusters are kept in Partition::clusters, by example id
/// (FedNLP's code indexes them in alphabetical order of the ids, which is not copied). Registered as
/// "feature_clusters".
class FeatureClusters : public Partitioner {
 public:
  explicit FeatureClusters(FeatureClustersConfig config);
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  FeatureClustersConfig config_;
};

struct KMeansPartitionConfig {
  std::int64_t restarts = 10;  ///< k-means restarts; the best one is kept

  void describe(ConfigVisitor& v);
};

/// FedNLP's `kmeans_clusters=<k>`: as many clusters as clients; client c holds cluster c. Registered as "kmeans".
class KMeansPartition : public Partitioner {
 public:
  explicit KMeansPartition(KMeansPartitionConfig config) : config_(config) {}
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  KMeansPartitionConfig config_;
};

}  // namespace chorus::inline partition
