#include "application/metrics/metric.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace chorus::inline metrics {

void Metric::check_mergeable(const Metric& other) const {
  if (signature() != other.signature())
    throw InternalError(fmt::format("a metric '{}' cannot be merged into '{}'", other.signature(), signature()));
}

std::uint32_t Tally::index(std::string_view name) {
  const auto [found, is_new] = index_.try_emplace(std::string(name), static_cast<std::uint32_t>(names_.size()));
  if (is_new) {
    names_.emplace_back(name);
    totals_.push_back({});
  }
  return found->second;
}

void Tally::add(std::uint32_t index, const Triple& values) {
  Triple& total = totals_[index];
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += values[i];
  if (keep_ == Keep::kUnits) entries_.push_back({index, values});
}

void Tally::end_example() {
  ++examples_;
  if (keep_ == Keep::kUnits) {
    unit_end_.push_back(entries_.size());
    unit_examples_.push_back(1);
  }
}

std::vector<std::uint32_t> Tally::map_names(const Tally& other) {
  std::vector<std::uint32_t> ours;
  ours.reserve(other.names_.size());
  for (const std::string& name : other.names_) ours.push_back(index(name));
  return ours;
}

void Tally::merge(const Tally& other) {
  check(keep_ == Keep::kTotals || other.keep_ == Keep::kUnits, "units are kept here but not in what is merged");
  check(this != &other, "a tally cannot be merged into itself");
  const std::vector<std::uint32_t> ours = map_names(other);
  for (std::size_t i = 0; i < ours.size(); ++i)
    for (std::size_t k = 0; k < 3; ++k) totals_[ours[i]][k] += other.totals_[i][k];
  examples_ += other.examples_;
  if (keep_ == Keep::kTotals) return;
  const std::size_t offset = entries_.size();
  for (const Entry& entry : other.entries_) entries_.push_back({ours[entry.index], entry.values});
  for (const std::size_t end : other.unit_end_) unit_end_.push_back(offset + end);
  unit_examples_.insert(unit_examples_.end(), other.unit_examples_.begin(), other.unit_examples_.end());
}

void Tally::add_summary(const MetricTotals& summary) {
  check(keep_ == Keep::kTotals, "units are kept here but not in what is added");
  if (summary.rows.size() != summary.names.size()) throw DataError("the totals of a metric must have one row per name");
  for (std::size_t i = 0; i < summary.names.size(); ++i) add(index(summary.names[i]), summary.rows[i]);
  examples_ += summary.examples;
}

void Tally::merge_as_unit(const Tally& other) {
  check(keep_ == Keep::kUnits, "units are not kept");
  const std::vector<std::uint32_t> ours = map_names(other);
  for (std::size_t i = 0; i < ours.size(); ++i) add(ours[i], other.totals_[i]);
  examples_ += other.examples_;
  unit_end_.push_back(entries_.size());
  unit_examples_.push_back(other.examples_);
}

Tally Tally::weighted(std::span<const std::uint32_t> times) const {
  check(times.size() == units(), "one weight for each kept unit is needed");
  Tally sums(Keep::kTotals);
  sums.names_ = names_;
  sums.totals_.resize(names_.size());
  std::size_t begin = 0;
  for (std::size_t unit = 0; unit < times.size(); ++unit) {
    const double weight = times[unit];
    sums.examples_ += times[unit] * unit_examples_[unit];
    for (std::size_t e = begin; weight > 0 && e < unit_end_[unit]; ++e)
      for (std::size_t k = 0; k < 3; ++k) sums.totals_[entries_[e].index][k] += weight * entries_[e].values[k];
    begin = unit_end_[unit];
  }
  return sums;
}

void TallyMetric::merge(const Metric& other) {
  check_mergeable(other);
  tally_.merge(static_cast<const TallyMetric&>(other).tally_);
}

void TallyMetric::merge_as_unit(const Metric& other) {
  check_mergeable(other);
  tally_.merge_as_unit(static_cast<const TallyMetric&>(other).tally_);
}

}  // namespace chorus::inline metrics
