#include "application/data/continual/time_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>

#include "application/data/partition/temporal.h"
#include "application/data/readers/json_value.h"
#include "application/data/record.h"
#include "core/base/error.h"

namespace chorus::inline continual {
namespace {

using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using std::chrono::year_month;
using std::chrono::year_month_day;

constexpr std::int64_t kDay = 86'400;
// Years 1 to 9999, which every calendar function accepts.
constexpr std::int64_t kFirstDate = -62'135'596'800;
constexpr std::int64_t kLastDate = 253'402'300'799;

std::int64_t parsed(const std::string& text, const char* key) {
  try {
    return parse_time(text, key);
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  }
}

year_month month_of(std::int64_t time) {
  if (time < kFirstDate || time > kLastDate) {
    throw DataError(fmt::format(
        "the time {} is not a date in seconds since 1970, so there are no months; use by: duration, count or cuts",
        time));
  }
  const year_month_day date(std::chrono::floor<days>(sys_seconds(std::chrono::seconds(time))));
  return date.year() / date.month();
}

std::int64_t begin_of(year_month month) {
  return sys_seconds(sys_days(month / std::chrono::day{1})).time_since_epoch().count();
}

/// The usable examples with their times.
struct Examples {
  std::vector<ExampleId> ids;
  std::vector<ClientId> owners;
  std::vector<std::int64_t> times;

  void add(const ClientLists& lists, std::span<const std::int64_t> all) {
    for (std::size_t client = 0; client < lists.clients(); ++client) {
      for (const ExampleId id : lists[client]) {
        if (id >= all.size())
          throw DataError(fmt::format("example {} does not exist; the data has {} examples", id, all.size()));
        if (all[id] == kNoTime) {
          throw DataError(
              fmt::format("example {} (of client {}) has no time; segments need one for every example", id, client));
        }
        ids.push_back(id);
        owners.push_back(static_cast<ClientId>(client));
        times.push_back(all[id]);
      }
    }
  }

  ClientLists within(const TimeRange& range, std::size_t clients) const {
    std::vector<ExampleId> kept;
    std::vector<ClientId> holders;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (times[i] < range.first || times[i] >= range.second) continue;
      kept.push_back(ids[i]);
      holders.push_back(owners[i]);
    }
    return ClientLists::from_owners(holders, kept, clients);
  }

  /// Times in [from, until), sorted.
  std::vector<std::int64_t> sorted(std::int64_t from, std::int64_t until) const {
    std::vector<std::int64_t> some;
    std::copy_if(times.begin(), times.end(), std::back_inserter(some),
                 [&](std::int64_t t) { return t >= from && t < until; });
    std::sort(some.begin(), some.end());
    return some;
  }
};

std::vector<TimeRange> ranges_of(const std::vector<std::int64_t>& edges) {
  std::vector<TimeRange> ranges;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) ranges.emplace_back(edges[i], edges[i + 1]);
  return ranges;
}

/// The training period, and the times in it, sorted.
struct Period {
  std::int64_t first = 0, end = 0;
  std::vector<std::int64_t> times;
};

std::vector<std::int64_t> month_edges(const TimeSegmentsConfig& config, const Period& period) {
  const std::chrono::months width(config.months);
  const auto wanted = static_cast<std::size_t>(config.segments);
  std::vector<std::int64_t> edges{period.end};
  year_month month = month_of(period.end - 1) + std::chrono::months(1);
  while ((wanted == 0 || edges.size() <= wanted) && edges.back() > period.times.front()) {
    month -= width;
    edges.push_back(config.from ? std::max(begin_of(month), period.first) : begin_of(month));
  }
  std::reverse(edges.begin(), edges.end());
  if (edges.size() <= wanted) {
    throw ConfigError(
        fmt::format("{} segments of {} months are configured, but the training data, from {} to {}, has only {}; set "
                    "segments to {}",
                    wanted, config.months, time_text(period.times.front()), time_text(period.end), edges.size() - 1,
                    edges.size() - 1));
  }
  return edges;
}

std::vector<std::int64_t> cut_edges(const TimeSegmentsConfig& config, const Period& period) {
  std::vector<std::int64_t> edges{period.first};
  for (const std::string& text : config.cuts) {
    const std::int64_t cut = parsed(text, "cuts");
    if (cut <= edges.back()) {
      throw ConfigError(
          fmt::format("cuts: {} does not come after {}; give them in ascending order, all of them after "
                      "the first example",
                      text, time_text(edges.back())));
    }
    if (cut >= period.end) {
      throw ConfigError(
          fmt::format("cuts: {} is not before {}, where the training period ends", text, time_text(period.end)));
    }
    edges.push_back(cut);
  }
  edges.push_back(period.end);
  return edges;
}

std::vector<std::int64_t> edges_of(const TimeSegmentsConfig& config, const Period& period) {
  if (config.by == SegmentRule::kMonths) return month_edges(config, period);
  if (config.by == SegmentRule::kCuts) return cut_edges(config, period);
  const auto pieces = static_cast<std::size_t>(config.segments);
  std::vector<std::int64_t> edges{period.first};
  if (config.by == SegmentRule::kCount) {
    const std::vector<std::int64_t> inner = slice_boundaries(period.times, pieces, "count");
    edges.insert(edges.end(), inner.begin(), inner.end());
  } else {
    const long double width = static_cast<long double>(period.end) - static_cast<long double>(period.first);
    for (std::size_t s = 1; s < pieces; ++s) {
      edges.push_back(static_cast<std::int64_t>(
          std::floor(static_cast<long double>(period.first) +
                     width * static_cast<long double>(s) / static_cast<long double>(pieces))));
    }
  }
  edges.push_back(period.end);
  return edges;
}

/// The end of training when neither the configuration nor the partition defines the test data.
std::int64_t natural_end(const TimeSegmentsConfig& config, const std::vector<std::int64_t>& times) {
  if (config.by == SegmentRule::kCuts) {
    throw ConfigError("by: cuts needs test_from, or a partition that has a test split");
  }
  const auto pieces = static_cast<std::size_t>(config.segments);
  const std::int64_t end =
      config.by == SegmentRule::kMonths
          ? begin_of(month_of(times.back()))
          : slice_boundaries(times, pieces + 1, config.by == SegmentRule::kCount ? "count" : "duration").back();
  if (end <= times.front()) {
    throw DataError(fmt::format("everything from {} to {} would be test data; give test_from, or cut another way",
                                time_text(times.front()), time_text(times.back())));
  }
  return end;
}

}  // namespace

std::string time_text(std::int64_t time) {
  // Small values are an order, not a date in 1970.
  if (time < kFirstDate || time > kLastDate || (time >= 0 && time < 1000 * kDay)) return std::to_string(time);
  const sys_seconds point{std::chrono::seconds(time)};
  const auto day = std::chrono::floor<days>(point);
  const year_month_day date(day);
  const std::chrono::hh_mm_ss clock(point - day);
  const std::string text = fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  if (time % kDay == 0) return text;
  return fmt::format("{}T{:02}:{:02}:{:02}Z", text, clock.hours().count(), clock.minutes().count(),
                     clock.seconds().count());
}

void TimeSegmentsConfig::describe(ConfigVisitor& v) {
  v.field("by", by,
          {{"months", SegmentRule::kMonths},
           {"duration", SegmentRule::kDuration},
           {"count", SegmentRule::kCount},
           {"cuts", SegmentRule::kCuts}},
          "how the training period is cut: calendar months, equal durations, equal example counts, given times");
  v.field("segments", segments, "number of segments; by months, 0 means all; ignored with cuts")
      .at_least(0)
      .at_most(100'000);
  v.field("months", months, "by months: calendar months per segment").at_least(1).at_most(1200);
  v.field("cuts", cuts, "by cuts: start of the second, third, ... segment (2004-11-15, or seconds since 1970)");
  v.field("from", from, "ignore older examples");
  v.field("test_from", test_from, "end of training and start of the test period");
  v.field("test_until", test_until, "ignore later examples");
  v.check([this]() -> std::string {
    if ((by == SegmentRule::kCuts) == cuts.empty()) return "cuts and by: cuts need each other; set both or neither";
    if ((by == SegmentRule::kDuration || by == SegmentRule::kCount) && segments < 1)
      return "segments must be at least 1";
    return "";
  });
}

ClientLists TimeSegments::united() const {
  ClientLists all;
  if (train.empty()) return all;
  std::vector<ExampleId> mine;
  for (std::size_t client = 0; client < train.front().clients(); ++client) {
    mine.clear();
    for (const ClientLists& segment : train) mine.insert(mine.end(), segment[client].begin(), segment[client].end());
    all.append(mine);
  }
  return all;
}

TimeSegments time_segments(const Partition& partition, std::span<const std::int64_t> times,
                           const TimeSegmentsConfig& config) {
  if (times.empty())
    throw DataError("the data has no time column, so it cannot be cut into time segments; set data.columns.time");
  if (config.segments < (config.by == SegmentRule::kMonths ? 0 : 1) || config.months < 1) {
    throw ConfigError("segments and months must be at least 1 (by months, 0 segments means all)");
  }
  const bool own_test = !config.test_from && partition.test.total() > 0;
  Examples examples;
  examples.add(partition.train, times);
  if (config.test_from) examples.add(partition.test, times);

  constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
  const std::int64_t from = config.from ? parsed(*config.from, "from") : std::numeric_limits<std::int64_t>::min();
  const std::int64_t until = config.test_until ? parsed(*config.test_until, "test_until") : kForever;
  Period period;
  period.times = examples.sorted(from, until);
  if (period.times.empty()) throw DataError("no training example lies between from and test_until; change them");
  const std::int64_t newest = period.times.back();
  const std::int64_t last = config.test_until ? until : newest + 1;  // sorted() leaves out kForever itself
  period.first = config.from ? from : period.times.front();
  if (config.test_from) {
    period.end = parsed(*config.test_from, "test_from");
    if (period.end <= period.times.front() || period.end > newest) {
      throw ConfigError(
          fmt::format("test_from is {}, but the examples lie between {} and {}; training data must come "
                      "before it and test data after it",
                      *config.test_from, time_text(period.times.front()), time_text(newest)));
    }
  } else if (!own_test) {
    period.end = natural_end(config, period.times);
  } else {
    period.end = config.by == SegmentRule::kMonths ? begin_of(month_of(newest) + std::chrono::months(1)) : last;
  }
  period.times.erase(std::lower_bound(period.times.begin(), period.times.end(), period.end), period.times.end());

  TimeSegments result;
  result.bounds = ranges_of(edges_of(config, period));
  for (std::size_t s = 0; s < result.bounds.size(); ++s) {
    const TimeRange& range = result.bounds[s];
    result.train.push_back(examples.within(range, partition.clients()));
    if (result.train.back().total() == 0) {
      throw DataError(
          fmt::format("segment {} of {}, from {} to {}, has no training example; use fewer segments, or "
                      "other cuts",
                      s + 1, result.bounds.size(), time_text(range.first), time_text(range.second)));
    }
  }
  if (own_test) {
    result.test = partition.test;
  } else {
    result.test_bounds = TimeRange{period.end, last};
    result.test = examples.within(*result.test_bounds, partition.clients());
    if (result.test.total() == 0) {
      throw DataError(fmt::format("the test period, from {} to {}, has no example; set test_from",
                                  time_text(period.end), time_text(last)));
    }
  }
  return result;
}

}  // namespace chorus::inline continual
