#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "application/metrics/metric.h"

namespace chorus::inline metrics {

struct BootstrapOptions {
  std::size_t resamples = 1000;  ///< at least 1
  double confidence = 0.95;      ///< between 0 and 1, exclusive
  std::uint64_t seed = 0;
};

/// The value lies between `low` and `high` with the given confidence. NaN when no resample had a defined value.
struct Interval {
  double low = 0;
  double high = 0;
};

/// Percentile bootstrap (Efron 1979): draws as many units as there are, with replacement, `resamples` times, and takes
/// the (1 - confidence)/2 and (1 + confidence)/2 quantiles of each score (linear interpolation, as NumPy). Units are
/// examples, or clients if they were merged with `merge_as_unit`. Resamples in which a score is undefined are excluded
/// from its quantiles; a class that is missing from a resample counts as undefined there. Resample r depends on (seed,
/// r) only. ConfigError for impossible options; a metric without units is an InternalError.
///
///     const auto intervals = bootstrap(metric, {.seed = 1});
///     intervals.at("f1").low;
std::map<std::string, Interval> bootstrap(const Metric& metric, const BootstrapOptions& options);

/// The q-quantile of sorted values, linearly interpolated. NaN for none.
double quantile(std::span<const double> sorted, double q);

}  // namespace chorus::inline metrics
