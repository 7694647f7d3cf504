#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace chorus::inline metrics {

/// Named values: "accuracy", "f1/PER". Always has "examples". An undefined value (a mean over nothing, the correlation
/// of a constant) is NaN.
using Scores = std::map<std::string, double>;

/// What a metric keeps. Totals suffice for its value. Units are also needed for a bootstrap: one unit is one example,
/// or one client after `merge_as_unit`.
enum class Keep { kTotals, kUnits };

/// The counts of a metric, without its kind and options: what a client sends to its server. Three values per name
/// (Tally), or one row per pair of values (Correlation).
struct MetricTotals {
  std::vector<std::string> names;
  std::vector<std::array<double, 3>> rows;  ///< one per name
  std::uint64_t examples = 0;
};

/// A measure of predictions against references, accumulated in batches by one thread and merged across clients. Each
/// kind has its own `add`; the rest is here. No value depends on how examples are split into batches or clients.
///
///     Classification metric({.positive = "1"});
///     for (const Batch& batch : batches) metric.add(predictions(batch), batch.labels);
///     metric.merge(other_client);
///     double accuracy = metric.scores().at("accuracy");
class Metric {
 public:
  virtual ~Metric() = default;

  /// An empty metric with the same options.
  virtual std::unique_ptr<Metric> fresh(Keep keep) const = 0;
  /// Kind and options as text; only metrics with equal signatures can be merged.
  virtual std::string signature() const = 0;

  /// Adds all of `other`. If units are kept here, they must be kept there too; they are appended.
  virtual void merge(const Metric& other) = 0;
  /// The totals, and adding those of another metric with the same signature (without units). They may come from a peer:
  /// DataError when they are invalid.
  virtual MetricTotals totals() const = 0;
  virtual void add_totals(const MetricTotals& totals) = 0;
  /// Adds all of `other` as one unit, so that clients are resampled. Units must be kept here.
  virtual void merge_as_unit(const Metric& other) = 0;

  virtual std::uint64_t examples() const = 0;
  /// Number of kept units.
  virtual std::size_t units() const = 0;

  virtual Scores scores() const = 0;
  /// The scores when unit u counts times[u] times; one entry per unit.
  virtual Scores scores(std::span<const std::uint32_t> times) const = 0;

 protected:
  void check_mergeable(const Metric& other) const;
};

/// Sums of three values under each of a growing list of names: the sufficient statistics of every metric except the
/// correlations. (tp, predicted, actual) of a class; (precision, recall, F) of a ROUGE; (loss, tokens, -).
class Tally {
 public:
  using Triple = std::array<double, 3>;

  explicit Tally(Keep keep) : keep_(keep) {}

  /// The index of a name, added if new.
  std::uint32_t index(std::string_view name);
  /// Adds to the sums of a name in the current example.
  void add(std::uint32_t index, const Triple& values);
  void end_example();

  void merge(const Tally& other);
  void merge_as_unit(const Tally& other);
  MetricTotals summary() const { return {names_, totals_, examples_}; }
  /// Units must not be kept.
  void add_summary(const MetricTotals& summary);

  Keep keep() const { return keep_; }
  std::uint64_t examples() const { return examples_; }
  std::size_t units() const { return unit_end_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<Triple>& totals() const { return totals_; }

  /// The totals (and the number of examples) when unit u counts times[u] times. Keeps no units.
  Tally weighted(std::span<const std::uint32_t> times) const;

 private:
  struct Entry {
    std::uint32_t index;
    Triple values;
  };
  std::vector<std::uint32_t> map_names(const Tally& other);

  Keep keep_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> index_;
  std::vector<Triple> totals_;
  std::uint64_t examples_ = 0;
  std::vector<Entry> entries_;                // of all units, concatenated
  std::vector<std::size_t> unit_end_;         // into entries_
  std::vector<std::uint64_t> unit_examples_;  // examples in each unit
};

/// A metric whose value is a function of a Tally: a subclass implements `add`, `fresh`, `signature` and `finish`.
class TallyMetric : public Metric {
 public:
  explicit TallyMetric(Keep keep) : tally_(keep) {}

  void merge(const Metric& other) override;
  void merge_as_unit(const Metric& other) override;
  MetricTotals totals() const override { return tally_.summary(); }
  void add_totals(const MetricTotals& totals) override { tally_.add_summary(totals); }
  std::uint64_t examples() const override { return tally_.examples(); }
  std::size_t units() const override { return tally_.units(); }
  Scores scores() const override { return finish(tally_); }
  Scores scores(std::span<const std::uint32_t> times) const override { return finish(tally_.weighted(times)); }

 protected:
  /// Names of `tally` are in any order, and some may have zero sums.
  virtual Scores finish(const Tally& tally) const = 0;

  Tally tally_;
};

}  // namespace chorus::inline metrics
