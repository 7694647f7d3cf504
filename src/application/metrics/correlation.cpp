#include "application/metrics/correlation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.h"

namespace chorus::inline metrics {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double weight(std::span<const std::uint32_t> times, std::size_t i) { return times.empty() ? 1.0 : times[i]; }

struct Centred {
  double mean = 0;
  double scale = 0;  // largest distance from the mean: keeps squares from overflowing
  double norm = 0;   // of the scaled distances
  bool constant = true;
};

Centred centre(std::span<const double> values, std::span<const std::uint32_t> times, double count) {
  Centred result;
  double first = kUndefined;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double w = weight(times, i);
    if (w == 0) continue;
    result.mean += w * (values[i] / count);
    if (std::isnan(first)) first = values[i];
    if (values[i] != first) result.constant = false;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (weight(times, i) > 0) result.scale = std::max(result.scale, std::abs(values[i] - result.mean));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double distance = (values[i] - result.mean) / result.scale;
    if (const double w = weight(times, i); w > 0) result.norm += w * distance * distance;
  }
  result.norm = std::sqrt(result.norm);
  return result;
}

// Mean ranks from 1, in the sample where value i occurs times[i] times.
std::vector<double> mean_ranks(std::span<const double> values, std::span<const std::uint32_t> times) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  double before = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double tied = 0;
    while (end < order.size() && values[order[end]] == values[order[begin]]) tied += weight(times, order[end++]);
    for (; begin < end; ++begin) ranks[order[begin]] = before + (tied + 1) / 2;
    before += tied;
  }
  return ranks;
}

bool all_finite(std::span<const double> values, std::span<const std::uint32_t> times) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (weight(times, i) > 0 && !std::isfinite(values[i])) return false;
  return true;
}

}  // namespace

double pearson(std::span<const double> x, std::span<const double> y, std::span<const std::uint32_t> times) {
  check(x.size() == y.size() && (times.empty() || times.size() == x.size()), "pairs and weights of unequal length");
  double count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) count += weight(times, i);
  if (count < 2 || !all_finite(x, times) || !all_finite(y, times)) return kUndefined;
  const Centred cx = centre(x, times, count);
  const Centred cy = centre(y, times, count);
  if (cx.constant || cy.constant) return kUndefined;
  double product = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double w = weight(times, i);
    if (w > 0) product += w * ((x[i] - cx.mean) / cx.scale / cx.norm) * ((y[i] - cy.mean) / cy.scale / cy.norm);
  }
  if (count == 2) product = std::round(product);
  return std::clamp(product, -1.0, 1.0);
}

double spearman(std::span<const double> x, std::span<const double> y, std::span<const std::uint32_t> times) {
  check(x.size() == y.size() && (times.empty() || times.size() == x.size()), "pairs and weights of unequal length");
  std::vector<double> counted_x, counted_y;
  std::vector<std::uint32_t> counted_times;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (weight(times, i) == 0) continue;
    if (std::isnan(x[i]) || std::isnan(y[i])) return kUndefined;  // NaN has no rank; infinities do
    counted_x.push_back(x[i]);
    counted_y.push_back(y[i]);
    if (!times.empty()) counted_times.push_back(times[i]);
  }
  return pearson(mean_ranks(counted_x, counted_times), mean_ranks(counted_y, counted_times), counted_times);
}

void Correlation::add(double prediction, double reference) {
  predictions_.push_back(prediction);
  references_.push_back(reference);
  if (keep_ == Keep::kUnits) unit_end_.push_back(predictions_.size());
}

void Correlation::add(std::span<const double> predictions, std::span<const double> references) {
  check(predictions.size() == references.size(), "as many predictions as references are needed");
  for (std::size_t i = 0; i < predictions.size(); ++i) add(predictions[i], references[i]);
}

void Correlation::merge(const Metric& other) {
  check_mergeable(other);
  const auto& that = static_cast<const Correlation&>(other);
  check(this != &that, "a metric cannot be merged into itself");
  check(keep_ == Keep::kTotals || that.keep_ == Keep::kUnits, "units are kept here but not in what is merged");
  const std::size_t offset = predictions_.size();
  predictions_.insert(predictions_.end(), that.predictions_.begin(), that.predictions_.end());
  references_.insert(references_.end(), that.references_.begin(), that.references_.end());
  if (keep_ == Keep::kUnits)
    for (const std::size_t end : that.unit_end_) unit_end_.push_back(offset + end);
}

MetricTotals Correlation::totals() const {
  MetricTotals result;
  for (std::size_t i = 0; i < predictions_.size(); ++i) {
    result.names.emplace_back("pair");
    result.rows.push_back({predictions_[i], references_[i], 0});
  }
  result.examples = predictions_.size();
  return result;
}

void Correlation::add_totals(const MetricTotals& totals) {
  check(keep_ == Keep::kTotals, "units are kept here but not in what is added");
  if (totals.rows.size() != totals.examples)
    throw DataError("the totals of a correlation must have one row per example");
  for (const auto& row : totals.rows) add(row[0], row[1]);
}

void Correlation::merge_as_unit(const Metric& other) {
  check_mergeable(other);
  const auto& that = static_cast<const Correlation&>(other);
  check(keep_ == Keep::kUnits && this != &that, "units are not kept");
  predictions_.insert(predictions_.end(), that.predictions_.begin(), that.predictions_.end());
  references_.insert(references_.end(), that.references_.begin(), that.references_.end());
  unit_end_.push_back(predictions_.size());
}

Scores Correlation::scores(std::span<const std::uint32_t> times) const {
  check(times.size() == units(), "one weight for each kept unit is needed");
  std::vector<std::uint32_t> each;
  each.reserve(predictions_.size());
  for (std::size_t unit = 0; unit < times.size(); ++unit) each.resize(unit_end_[unit], times[unit]);
  return score_pairs(each);
}

Scores Correlation::score_pairs(std::span<const std::uint32_t> times) const {
  const double p = pearson(predictions_, references_, times);
  const double s = spearman(predictions_, references_, times);
  double count = static_cast<double>(predictions_.size());
  if (!times.empty()) count = std::accumulate(times.begin(), times.end(), 0.0);
  return {{"pearson", p}, {"spearman", s}, {"correlation", (p + s) / 2}, {"examples", count}};
}

}  // namespace chorus::inline metrics
