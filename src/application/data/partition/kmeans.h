#pragma once

#include <cstdint>
#include <vector>

#include "application/data/partition/population.h"

namespace chorus::inline partition {

struct KMeansConfig {
  std::size_t clusters = 10;
  std::size_t restarts = 10;     ///< restarts; the best one is kept (scikit-learn's n_init)
  std::size_t iterations = 300;  ///< maximum per restart
  double tolerance = 1e-4;       ///< stop when the centres move less than this share of the data's variance
};

struct KMeans {
  std::vector<std::int32_t> assignment;  ///< the cluster of each row
  FeatureMatrix centres;
  double inertia = 0;          ///< sum of squared distances to the assigned centre
  std::size_t iterations = 0;  ///< of the best restart
};

/// Lloyd's algorithm from k-means++ seeds (Arthur and Vassilvitskii, 2007), best of several restarts. A cluster that
/// loses all its rows gets the row farthest from its centre. Deterministic in the seed. `clusters` must be 1 .. rows.
KMeans kmeans(const FeatureMatrix& features, const KMeansConfig& config, std::uint64_t seed);

}  // namespace chorus::inline partition
