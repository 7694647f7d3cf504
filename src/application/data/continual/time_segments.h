#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "application/data/partition/partition.h"
#include "core/config/config_visitor.h"

namespace chorus::inline continual {

/// How the training period is cut into segments.
enum class SegmentRule {
  kMonths,    ///< calendar months (UTC), `months` per segment
  kDuration,  ///< `segments` of equal time
  kCount,     ///< `segments` of equal numbers of training examples (equal times stay together)
  kCuts       ///< at the given times
};

struct TimeSegmentsConfig {
  SegmentRule by = SegmentRule::kMonths;
  std::int64_t segments = 3;              ///< number of segments; by months, 0 means all
  std::int64_t months = 1;                ///< by months: months per segment (Dupuy et al. 2022: 2)
  std::vector<std::string> cuts;          ///< by cuts: start of the second, third, ... segment
  std::optional<std::string> from;        ///< ignore older examples
  std::optional<std::string> test_from;   ///< start of the test period, end of training
  std::optional<std::string> test_until;  ///< ignore later examples

  void describe(ConfigVisitor& v);
};

using TimeRange = std::pair<std::int64_t, std::int64_t>;  ///< [first, second)

/// Continual federated learning (Dupuy et al. 2022, section 3): consecutive time segments, each trained from the model
/// of the previous one, and a test period after them.
struct TimeSegments {
  std::vector<ClientLists> train;        ///< per segment; all clients of the partition, some without data
  ClientLists test;                      ///< of the test period
  std::vector<TimeRange> bounds;         ///< of each segment
  std::optional<TimeRange> test_bounds;  ///< none when the partition's test split is used

  /// The one-shot baseline: the union of all segments, each client's examples in the order of the segments.
  ClientLists united() const;
};

/// Cuts the clients' examples by time. Times are written as in data files: 2004-11-15, 2004-11-15T01:00:00Z, or seconds
/// since 1970 (or the data's own numbers).
///
/// With `test_from`, all examples of the partition, of either split, are divided by their time alone: earlier ones are
/// training data, the others test data. Without it, the partition's test split is the test set; if there is none, the
/// test period is the last month, or the last of segments + 1 equal pieces (Dupuy et al. 2022: month 12). By months,
/// the segments end where the test period begins and are counted backwards: `{by: months, months: 2, segments: 3}` of
/// twelve months are months 6-7, 8-9 and 10-11, tested on month 12; with `segments: 0` the first may be shorter.
///
///     const TimeSegments segments = time_segments(natural, data.times(), config.segments);
///     for (const ClientLists& train : segments.train) model = run_rounds(model, train);
///
/// DataError when there are no times, an example has none, or a segment or the test period is empty; ConfigError for an
/// invalid time and for cuts out of order or outside the training period.
TimeSegments time_segments(const Partition& partition, std::span<const std::int64_t> times,
                           const TimeSegmentsConfig& config);

/// "2004-11-15" (with the time of day unless it is midnight), or the number where it is not a date.
std::string time_text(std::int64_t time);

}  // namespace chorus::inline continual
