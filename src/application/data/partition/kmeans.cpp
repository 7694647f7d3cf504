#include "application/data/partition/kmeans.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline partition {
namespace {

double distance(std::span<const float> a, std::span<const float> b) {
  // Four partial sums, so that the compiler can vectorize without reassociation.
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  std::size_t j = 0;
  for (; j + 4 <= a.size(); j += 4) {
    const float d0 = a[j] - b[j], d1 = a[j + 1] - b[j + 1], d2 = a[j + 2] - b[j + 2], d3 = a[j + 3] - b[j + 3];
    s0 += d0 * d0;
    s1 += d1 * d1;
    s2 += d2 * d2;
    s3 += d3 * d3;
  }
  for (; j < a.size(); ++j) s0 += (a[j] - b[j]) * (a[j] - b[j]);
  return static_cast<double>(s0 + s1) + static_cast<double>(s2 + s3);
}

FeatureMatrix plus_plus(const FeatureMatrix& x, std::size_t clusters, RandomStream& stream) {
  FeatureMatrix centres{clusters, x.columns, std::vector<float>(clusters * x.columns)};
  std::vector<double> nearest(x.rows, std::numeric_limits<double>::max());
  std::size_t chosen = stream.below(x.rows);
  for (std::size_t c = 0; c < clusters; ++c) {
    std::copy_n(x.row(chosen).begin(), x.columns, centres.row(c).begin());
    double total = 0;
    for (std::size_t i = 0; i < x.rows; ++i) {
      nearest[i] = std::min(nearest[i], distance(x.row(i), centres.row(c)));
      total += nearest[i];
    }
    // Fewer distinct rows than clusters: any row will do; the cluster stays empty.
    chosen = total > 0 ? stream.categorical(nearest) : stream.below(x.rows);
  }
  return centres;
}

double variance(const FeatureMatrix& x) {
  double sum = 0;
  for (std::size_t j = 0; j < x.columns; ++j) {
    double mean = 0, square = 0;
    for (std::size_t i = 0; i < x.rows; ++i) {
      const double value = x.values[i * x.columns + j];
      mean += value;
      square += value * value;
    }
    mean /= static_cast<double>(x.rows);
    sum += square / static_cast<double>(x.rows) - mean * mean;
  }
  return sum / static_cast<double>(std::max<std::size_t>(1, x.columns));
}

/// Assigns every row to its nearest centre; returns the inertia.
double assign(const FeatureMatrix& x, KMeans& state, std::vector<double>& distances) {
  double inertia = 0;
  for (std::size_t i = 0; i < x.rows; ++i) {
    double best = std::numeric_limits<double>::max();
    for (std::size_t c = 0; c < state.centres.rows; ++c) {
      const double d = distance(x.row(i), state.centres.row(c));
      if (d < best) {
        best = d;
        state.assignment[i] = static_cast<std::int32_t>(c);
      }
    }
    distances[i] = best;
    inertia += best;
  }
  return inertia;
}

/// Moves centres to the means; returns the total squared movement.
double update(const FeatureMatrix& x, KMeans& state, std::vector<double>& distances) {
  const std::size_t clusters = state.centres.rows;
  std::vector<double> sums(clusters * x.columns, 0);
  std::vector<std::size_t> counts(clusters, 0);
  for (std::size_t i = 0; i < x.rows; ++i) ++counts[static_cast<std::size_t>(state.assignment[i])];
  for (std::size_t c = 0; c < clusters; ++c) {
    if (counts[c] > 0) continue;
    const auto far = static_cast<std::size_t>(std::max_element(distances.begin(), distances.end()) - distances.begin());
    if (distances[far] <= 0) continue;  // every row is at its centre: fewer distinct rows than clusters
    --counts[static_cast<std::size_t>(state.assignment[far])];
    state.assignment[far] = static_cast<std::int32_t>(c);
    distances[far] = 0;
    counts[c] = 1;
  }
  for (std::size_t i = 0; i < x.rows; ++i) {
    double* sum = sums.data() + static_cast<std::size_t>(state.assignment[i]) * x.columns;
    for (std::size_t j = 0; j < x.columns; ++j) sum[j] += x.values[i * x.columns + j];
  }
  double moved = 0;
  for (std::size_t c = 0; c < clusters; ++c) {
    if (counts[c] == 0) continue;
    for (std::size_t j = 0; j < x.columns; ++j) {
      float& centre = state.centres.values[c * x.columns + j];
      const auto mean = static_cast<float>(sums[c * x.columns + j] / static_cast<double>(counts[c]));
      moved += static_cast<double>(mean - centre) * (mean - centre);
      centre = mean;
    }
  }
  return moved;
}

}  // namespace

KMeans kmeans(const FeatureMatrix& features, const KMeansConfig& config, std::uint64_t seed) {
  check(config.clusters >= 1 && config.clusters <= features.rows, "the number of clusters must be 1 .. rows");
  check(features.values.size() == features.rows * features.columns, "the feature matrix has the wrong size");
  const double limit = config.tolerance * variance(features);
  KMeans best;
  best.inertia = std::numeric_limits<double>::infinity();
  std::vector<double> distances(features.rows);
  for (std::size_t start = 0; start < std::max<std::size_t>(1, config.restarts); ++start) {
    RandomStream stream({.seed = seed, .purpose = "partition.kmeans", .round = start});
    KMeans state;
    state.centres = plus_plus(features, config.clusters, stream);
    state.assignment.assign(features.rows, 0);
    for (state.iterations = 0; state.iterations < config.iterations;) {
      assign(features, state, distances);
      ++state.iterations;
      if (update(features, state, distances) <= limit) break;
    }
    state.inertia = assign(features, state, distances);
    if (state.inertia < best.inertia) best = std::move(state);
  }
  return best;
}

}  // namespace chorus::inline partition
