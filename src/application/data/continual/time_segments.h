#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "application/data/partition/partition.h"
#include "core/config/config_visitor.h"

namespace chorus {

/// How the training period is cut.
enum class SegmentRule {
  kMonths,    ///< calendar months (UTC), `months` of them a segment
  kDuration,  ///< `segments` of equal time
  kCount,     ///< `segments` of equal numbers of training examples (equal times stay together)
  kCuts       ///< at the given times
};

struct TimeSegmentsConfig {
  SegmentRule by = SegmentRule::kMonths;
  std::int64_t segments = 3;              ///< how many; by months 0 means as many as there are
  std::int64_t months = 1;                ///< by months: how many a segment has (paper 002: 2)
  std::vector<std::string> cuts;          ///< by cuts: where the second, third, ... segment begins
  std::optional<std::string> from;        ///< what is older is not used
  std::optional<std::string> test_from;   ///< where the test period begins, and training ends
  std::optional<std::string> test_until;  ///< what is later is not used

  void describe(ConfigVisitor& v);
};

using TimeRange = std::pair<std::int64_t, std::int64_t>;  ///< [first, second)

/// Continual federated learning (paper 002, section 3): consecutive segments of time, each trained on from the last
/// segment's model, and a test period after them.
struct TimeSegments {
  std::vector<ClientLists> train;  ///< segment by segment; every client of the partition, those without data empty
  ClientLists test;                ///< of the test period
  std::vector<TimeRange> bounds;   ///< of each segment
  std::optional<TimeRange> test_bounds;  ///< none when the test examples are the partition's own test split

  /// The one-shot baseline: everything of all segments, each client's examples in the order of time segments.
  ClientLists united() const;
};

/// Cuts the clients' examples by time. Times are written as in data files: 2004-11-15, 2004-11-15T01:00:00Z, or seconds
/// since 1970 (or whatever number the data's times are).
///
/// With `test_from`, all examples of the partition, of either split, are dealt by their time alone: those before it are
/// training data, the others test data. Without, the partition's test split is the test set if it has one; if not, the
/// last month, or the last of segments + 1 equal pieces, is the test period (paper 002: month 12). By months, the
/// segments end with the test period's beginning and are counted backwards: `{by: months, months: 2, segments: 3}` of
/// twelve months are months 6-7, 8-9 and 10-11, tested on month 12; with `segments: 0` the first may be shorter.
///
///     const TimeSegments segments = time_segments(natural, data.times(), config.segments);
///     for (const ClientLists& train : segments.train) model = run_rounds(model, train);
///
/// DataError when there are no times, an example has none, a segment or the test period has no example; ConfigError for
/// a time that cannot be read and for cuts out of order or outside the training period.
TimeSegments time_segments(const Partition& partition, std::span<const std::int64_t> times,
                           const TimeSegmentsConfig& config);

/// "2004-11-15" (with the time of day unless it is midnight), or the number where it cannot be a date.
std::string time_text(std::int64_t time);

}  // namespace chorus
