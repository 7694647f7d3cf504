#include "application/data/continual/time_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "application/data/readers/json_value.h"
#include "application/data/record.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline continual {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

std::int64_t at(const std::string& text) { return parse_time(text, "test"); }

/// A year of one message per day, dealt to three clients in turn; client 2 writes from July only.
class Year : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::vector<ExampleId>> mine(3);
    for (std::int64_t day = 0; day < 365; ++day) {
      const std::int64_t time = at("2005-01-01T12:00:00Z") + 86400 * day;
      const std::size_t client = time < at("2005-07-01") ? static_cast<std::size_t>(day % 2) : day % 3;
      mine[client].push_back(static_cast<ExampleId>(times_.size()));
      times_.push_back(time);
    }
    for (const auto& ids : mine) {
      partition_.train.append(ids);
      partition_.test.append({});
    }
  }
  static TimeSegmentsConfig config(const std::string& yaml) {
    return ConfigDocument::parse(yaml, "test").load<TimeSegmentsConfig>();
  }
  TimeSegments cut(const std::string& yaml) const { return time_segments(partition_, times_, config(yaml)); }

  Partition partition_;
  std::vector<std::int64_t> times_;
};

TEST_F(Year, IsPaper002sContinualSetting) {
  const TimeSegments segments = cut("{by: months, months: 2, segments: 3}");
  EXPECT_THAT(segments.bounds,
              ElementsAre(Pair(at("2005-06-01"), at("2005-08-01")), Pair(at("2005-08-01"), at("2005-10-01")),
                          Pair(at("2005-10-01"), at("2005-12-01"))));
  ASSERT_EQ(segments.train.size(), 3u);
  EXPECT_EQ(segments.train[0].total(), 61u);
  EXPECT_EQ(segments.train[1].total(), 61u);
  EXPECT_EQ(segments.train[2].total(), 61u);
  EXPECT_EQ(segments.test.total(), 31u);
  EXPECT_EQ(segments.test_bounds->first, at("2005-12-01"));
  EXPECT_EQ(segments.test.clients(), 3u);
  for (std::size_t s = 0; s < 3; ++s) {
    ASSERT_EQ(segments.train[s].clients(), 3u);
    for (std::size_t client = 0; client < 3; ++client) {
      const auto all = partition_.train[client];
      for (const ExampleId id : segments.train[s][client]) {
        EXPECT_NE(std::find(all.begin(), all.end(), id), all.end());
        EXPECT_GE(times_[id], segments.bounds[s].first);
        EXPECT_LT(times_[id], segments.bounds[s].second);
      }
    }
  }
  const ClientLists united = segments.united();
  EXPECT_EQ(united.total(), 183u);
  EXPECT_EQ(united.clients(), 3u);
  EXPECT_EQ(united.size_of(1),
            segments.train[0].size_of(1) + segments.train[1].size_of(1) + segments.train[2].size_of(1));
}

TEST_F(Year, GivesEveryExampleToOnePlace) {
  for (const char* yaml : {"{by: months, segments: 0}", "{by: duration, segments: 4}", "{by: count, segments: 7}",
                           "{by: cuts, cuts: [2005-02-01, 2005-03-01], test_from: 2005-11-11}",
                           "{by: months, segments: 0, months: 5, test_from: 2005-11-11}"}) {
    SCOPED_TRACE(yaml);
    const TimeSegments segments = cut(yaml);
    std::multiset<ExampleId> seen(segments.test.ids().begin(), segments.test.ids().end());
    for (const ClientLists& train : segments.train) seen.insert(train.ids().begin(), train.ids().end());
    EXPECT_EQ(seen.size(), 365u);
    EXPECT_EQ(std::set<ExampleId>(seen.begin(), seen.end()).size(), 365u);
    for (const ExampleId id : segments.test.ids()) EXPECT_GE(times_[id], segments.bounds.back().second);
  }
  EXPECT_EQ(cut("{by: months, segments: 0}").train.size(), 11u);
  EXPECT_EQ(cut("{by: months, segments: 0, months: 5, test_from: 2005-11-11}").train.size(), 3u);
  EXPECT_EQ(cut("{by: count, segments: 4}").train[1].total(), 73u);  // 365 in five
  EXPECT_EQ(cut("{by: duration, segments: 4}").train[3].total(), 73u);
}

TEST_F(Year, CutsAtGivenTimes) {
  const TimeSegments segments =
      cut("{by: cuts, from: 2005-01-11, cuts: [2005-01-21], test_from: 2005-02-01, test_until: 2005-02-03}");
  EXPECT_THAT(segments.bounds,
              ElementsAre(Pair(at("2005-01-11"), at("2005-01-21")), Pair(at("2005-01-21"), at("2005-02-01"))));
  EXPECT_EQ(segments.train[0].total(), 10u);
  EXPECT_EQ(segments.train[1].total(), 11u);
  EXPECT_EQ(segments.test.total(), 2u);
  EXPECT_EQ(segments.test.size_of(2), 0u);
}

TEST_F(Year, KeepsTheTestSplitOfThePartition) {
  partition_.test = {};
  partition_.test.append(std::vector<ExampleId>{7});
  partition_.test.append({});
  partition_.test.append({});
  const TimeSegments segments = cut("{by: months, segments: 0}");
  EXPECT_EQ(segments.train.size(), 12u);
  EXPECT_EQ(segments.bounds.back().second, at("2006-01-01"));
  EXPECT_EQ(segments.test, partition_.test);
  EXPECT_FALSE(segments.test_bounds);
}

TEST_F(Year, SaysWhatIsWrong) {
  const auto fails = [&](const char* yaml, const char* what, bool data) {
    SCOPED_TRACE(yaml);
    if (data) {
      EXPECT_THAT([&] { cut(yaml); }, ThrowsMessage<DataError>(HasSubstr(what)));
    } else {
      EXPECT_THAT([&] { cut(yaml); }, ThrowsMessage<ConfigError>(HasSubstr(what)));
    }
  };
  fails("{by: cuts, cuts: [2005-03-01, 2005-02-01], test_from: 2005-11-01}", "does not come after 2005-03-01", false);
  fails("{by: cuts, cuts: [2005-03-01, 2005-03-01], test_from: 2005-11-01}", "does not come after", false);
  fails("{by: cuts, cuts: [2005-12-01], test_from: 2005-11-01}", "is not before 2005-11-01", false);
  fails("{by: cuts, cuts: [2004-03-01], test_from: 2005-11-01}", "does not come after 2005-01-01T12:00:00Z", false);
  fails("{by: cuts, cuts: [2005-03-01]}", "needs test_from", false);
  fails("{by: cuts, test_from: 2005-11-01}", "cuts and by: cuts need each other", false);
  fails("{by: count, cuts: [2005-03-01]}", "cuts and by: cuts need each other", false);
  fails("{by: count, segments: 0}", "at least 1", false);
  fails("{by: months, segments: 12}", "has only 11; set segments to 11", false);
  fails("{by: months, segments: 3, test_from: soon}", "test_from: 'soon' is not a time", false);
  fails("{by: months, segments: 3, test_from: 2007-01-01}", "examples lie between 2005-01-01T12:00:00Z", false);
  fails("{by: months, segments: 3, test_from: 2004-01-01}", "training data must come before", false);
  fails("{by: months, from: 2006-01-01}", "no training example lies between", true);
  fails("{by: months, from: 2005-12-01}", "would be test data", true);
  fails("{by: duration, segments: 360, from: 1905-01-01}", "segment 1 of 360, from 1905-01-01 to", true);
  fails("{by: duration, segments: 2, test_from: 2005-03-01, test_until: 2005-03-01}", "training data must come", false);
  fails("{by: count, segments: 400}", "has no training example", true);

  EXPECT_THAT([&] { time_segments(partition_, {}, {}); }, ThrowsMessage<DataError>(HasSubstr("no time column")));
  times_[17] = kNoTime;
  fails("{by: count}", "example 17 (of client 1) has no time", true);
  times_.resize(100);
  times_[17] = 0;
  fails("{by: count}", "does not exist; the data has 100 examples", true);
}

TEST_F(Year, TakesTimesThatAreNoDates) {
  for (std::size_t i = 0; i < times_.size(); ++i) times_[i] = static_cast<std::int64_t>(i);
  EXPECT_EQ(cut("{by: count, segments: 4}").bounds[1], TimeRange(73, 146));
  EXPECT_EQ(cut("{by: cuts, cuts: [100], test_from: 200}").train[1].total(), 100u);
  times_.back() = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_THAT([&] { cut("{by: months}"); }, ThrowsMessage<DataError>(HasSubstr("not a date in seconds since 1970")));
  EXPECT_EQ(cut("{by: count, segments: 1, test_from: 300}").train[0].total(), 300u);
  times_.front() = std::numeric_limits<std::int64_t>::min() + 1;
  EXPECT_EQ(cut("{by: duration, segments: 1}").test.total(), 364u);
}

TEST(TimeText, IsADateWhereItCanBe) {
  EXPECT_EQ(time_text(at("2004-11-15")), "2004-11-15");
  EXPECT_EQ(time_text(at("2004-11-15T01:02:03Z")), "2004-11-15T01:02:03Z");
  EXPECT_EQ(time_text(17), "17");
  EXPECT_EQ(time_text(std::numeric_limits<std::int64_t>::max()), "9223372036854775807");
}

}  // namespace
}  // namespace chorus::inline continual
