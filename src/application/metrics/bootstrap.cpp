#include "application/metrics/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline metrics {

double quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - std::floor(place);
  if (part == 0 || sorted[below] == sorted[above]) return sorted[below];  // also keeps infinities
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

std::map<std::string, Interval> bootstrap(const Metric& metric, const BootstrapOptions& options) {
  if (!(options.confidence > 0 && options.confidence < 1))
    throw ConfigError(
        fmt::format("the confidence is {}; it must be between 0 and 1 (0.95 is usual)", options.confidence));
  if (options.resamples == 0) throw ConfigError("a bootstrap needs at least one resample (1000 is usual)");
  const std::size_t units = metric.units();
  check(units > 0 || metric.examples() == 0, "a bootstrap needs a metric that keeps its units");

  std::map<std::string, std::vector<double>> samples;
  for (const auto& [name, value] : metric.scores()) samples[name];
  std::vector<std::uint32_t> times(units);
  for (std::size_t r = 0; units > 0 && r < options.resamples; ++r) {
    RandomStream stream({.seed = options.seed, .purpose = "bootstrap", .step = r});
    std::fill(times.begin(), times.end(), 0U);
    for (std::size_t draw = 0; draw < units; ++draw) ++times[stream.below(units)];
    for (const auto& [name, value] : metric.scores(times))
      if (!std::isnan(value)) samples[name].push_back(value);
  }

  std::map<std::string, Interval> intervals;
  for (auto& [name, values] : samples) {
    std::sort(values.begin(), values.end());
    const double tail = (1 - options.confidence) / 2;
    intervals[name] = {quantile(values, tail), quantile(values, 1 - tail)};
  }
  return intervals;
}

}  // namespace chorus::inline metrics
