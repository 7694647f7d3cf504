#pragma once

#include <span>
#include <vector>

#include "application/metrics/metric.h"

namespace chorus::inline metrics {

/// Pearson's correlation as scipy.stats.pearsonr, and Spearman's as scipy.stats.spearmanr: Pearson's of the ranks, ties
/// sharing their mean rank. `times[i]` is the multiplicity of pair i (empty: 1 each). NaN for fewer than two pairs, a
/// constant side, or any NaN or infinite value.
double pearson(std::span<const double> x, std::span<const double> y, std::span<const std::uint32_t> times = {});
double spearman(std::span<const double> x, std::span<const double> y, std::span<const std::uint32_t> times = {});

/// Regression scores: pearson, spearman, and their mean as `correlation` (GLUE's score for STS-B). Ranks need all
/// values, so this metric keeps 16 bytes per example.
///
///     metric.add(predicted, actual);
class Correlation : public Metric {
 public:
  explicit Correlation(Keep keep = Keep::kTotals) : keep_(keep) {}

  void add(double prediction, double reference);
  void add(std::span<const double> predictions, std::span<const double> references);

  std::unique_ptr<Metric> fresh(Keep keep) const override { return std::make_unique<Correlation>(keep); }
  std::string signature() const override { return "correlation"; }
  void merge(const Metric& other) override;
  void merge_as_unit(const Metric& other) override;
  MetricTotals totals() const override;
  void add_totals(const MetricTotals& totals) override;
  std::uint64_t examples() const override { return predictions_.size(); }
  std::size_t units() const override { return unit_end_.size(); }
  Scores scores() const override { return score_pairs({}); }
  Scores scores(std::span<const std::uint32_t> times) const override;

 private:
  Scores score_pairs(std::span<const std::uint32_t> times) const;

  Keep keep_;
  std::vector<double> predictions_;
  std::vector<double> references_;
  std::vector<std::size_t> unit_end_;
};

}  // namespace chorus::inline metrics
