#include "algorithm/selection/available.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "core/config/config.h"
#include "core/files/files.h"

namespace chorus::inline selection {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

class Available : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("chorus_available_" + std::to_string(::getpid()) + "_" +
                                                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    write_file(folder_ / name, text);
    return (folder_ / name).string();
  }
  static std::unique_ptr<Selector> configured(const std::string& yaml) {
    Choice<Selectors> choice("available");
    ConfigDocument::parse(yaml, "test").fill([&](ConfigVisitor& v) { choice.describe(v); });
    return choice.make();
  }
  /// The DataError of a trace with this text.
  void expect_error(const std::string& text, const std::string& place, const std::string& what) {
    const std::string path = file("bad.csv", text);
    EXPECT_THAT([&] { AvailabilityTrace::read(path); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("bad.csv" + place), HasSubstr(what))))
        << text;
  }

  std::filesystem::path folder_;
};

TEST_F(Available, TraceIsHalfOpenAndMergesItsLines) {
  for (const std::string& text :
       {std::string("client,start,end\r\n2,5,7\n0,0,1.5\n\n2,1,3\n2,2,4\n"),
        std::string("{\"client\": 2, \"start\": 5, \"end\": 7}\n{\"client\": 0, \"start\": 0, \"end\": 1.5}\n"
                    "{\"client\": 2, \"start\": 1, \"end\": 3}\n{\"client\": 2, \"start\": 2, \"end\": 4}")}) {
    const AvailabilityTrace trace = AvailabilityTrace::read(file("trace", text));
    EXPECT_EQ(trace.intervals(), 3u);
    EXPECT_EQ(trace.end(), 7);
    std::vector<int> rounds;
    for (int t = 0; t < 9; ++t) {
      if (trace.reachable(2, t)) rounds.push_back(t);
    }
    EXPECT_THAT(rounds, ElementsAre(1, 2, 3, 5, 6));
    EXPECT_TRUE(trace.reachable(0, 1.49));
    EXPECT_FALSE(trace.reachable(0, 1.5));
    EXPECT_FALSE(trace.reachable(1, 1));
    EXPECT_FALSE(trace.reachable(4'000'000'000, 1));
    EXPECT_TRUE(trace.reachable(2, 10 + 6, 10));
    EXPECT_NO_THROW(trace.check_clients(3));
    EXPECT_THAT([&] { trace.check_clients(2); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("trace:"), HasSubstr("client 2 is unknown"))));
  }
}

TEST_F(Available, TraceErrorsNameTheLine) {
  expect_error("", ":", "no line");
  expect_error("client,start,end\n", ":", "no line");
  expect_error("who,from,to\n1,2,3\n", ":1:", "must begin with the line client,start,end");
  expect_error("1,2,3\n", ":1:", "must begin with the line client,start,end");
  expect_error(std::string("\x1f\x8b\x08\0\0\0", 6), ":1:", "must begin with");
  expect_error("client,start,end\n1,2,3\n4,5", ":3:", "truncated");
  expect_error("client,start,end\n1,2,\n", ":2:", "must be numbers");
  expect_error("client,start,end\n1,2,3,4\n", ":2:", "4 columns");
  expect_error("client,start,end\n-1,2,3\n", ":2:", "number from 0");
  expect_error("client,start,end\n99999999999999999999,2,3\n", ":2:", "number from 0");
  expect_error("client,start,end\n4294967295,2,3\n", ":2:", "number from 0");
  expect_error("client,start,end\nanna,2,3\n", ":2:", "number from 0");
  expect_error("client,start,end\n1,3,3\n", ":2:", "must come after");
  expect_error("client,start,end\n1,nan,3\n", ":2:", "must be numbers");
  expect_error("client,start,end\n1,-1,3\n", ":2:", "must not be negative");
  expect_error("{\"client\": 1, \"start\": 0, \"end\": 1}\n{\"client\": 1, \"sta", ":2:", "truncated");
  expect_error("{\"client\": 1.5, \"start\": 0, \"end\": 1}\n", ":1:", "number from 0");
  expect_error("{\"client\": 1, \"start\": 0}\n", ":1:", "must be numbers");
  EXPECT_THROW(AvailabilityTrace::read(folder_ / "nothing.csv"), DataError);
}

TEST_F(Available, TakesAllReachableClientsWhenThereAreTooFew) {
  const std::string trace = file("trace.csv", "client,start,end\n0,0,2\n1,0,1\n3,0,1\n4,1,2\n");
  const auto selector = configured("{trace: " + trace + ", selector: {name: weighted, f: linear}}");
  const std::vector<double> sizes{3, 3, 3, 0, 3, 3};
  SelectionContext context{.sizes = sizes, .count = 3, .seed = 1};
  EXPECT_THAT(selector->select(context), UnorderedElementsAre(0, 1));  // 3 has no data
  context.round = 1;
  EXPECT_THAT(selector->select(context), UnorderedElementsAre(0, 4));
  context.count = 1;
  EXPECT_EQ(selector->select(context).size(), 1u);
  context.round = 2;
  EXPECT_TRUE(selector->select(context).empty());
  context.count = 6;  // impossible
  EXPECT_THAT([&] { selector->select(context); },
              ThrowsMessage<ConfigError>(HasSubstr("clients_per_round is 6, but there are 5")));
  const std::vector<double> fewer(3, 1);
  EXPECT_THAT([&] { selector->select({.sizes = fewer, .count = 1}); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("trace.csv:5"), HasSubstr("client 4 is unknown"))));
}

TEST_F(Available, HeavyDoesNotDependOnAvailability) {
  const std::string trace = file("trace.csv", "client,start,end\n0,0,9\n1,0,9\n9,5,9\n");
  const auto selector = configured("{trace: " + trace + ", selector: heavy}");
  const std::vector<double> sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_TRUE(selector->select({.sizes = sizes, .count = 2, .round = 4}).empty());
  EXPECT_THAT(selector->select({.sizes = sizes, .count = 2, .round = 5}), ElementsAre(9));
}

TEST_F(Available, CountsSecondsOfTheEmulatedClock) {
  const std::string trace = file("trace.csv", "client,start,end\n0,0,60\n1,60,120\n");
  const auto selector = configured("{trace: " + trace + ", unit: seconds, period: 120}");
  const std::vector<double> sizes(2, 1);
  SelectionContext context{.sizes = sizes, .count = 1, .round = 70};
  EXPECT_THAT([&] { selector->select(context); }, ThrowsMessage<ConfigError>(HasSubstr("has no emulated clock")));
  context.seconds = 59.5;
  EXPECT_THAT(selector->select(context), ElementsAre(0));
  context.seconds = 60;
  EXPECT_THAT(selector->select(context), ElementsAre(1));
  context.seconds = 121;
  EXPECT_THAT(selector->select(context), ElementsAre(0));
}

TEST_F(Available, DiurnalModelRepeatsEveryDay) {
  const std::vector<double> sizes(4000, 1);
  const auto reachable = [&](const AvailableConfig& config, std::uint64_t round) {
    return AvailableSelector(config).reachable({.sizes = sizes, .count = 1, .seed = 5, .round = round});
  };
  AvailableConfig config;
  config.rounds_per_day = 10;
  config.share = 0.3;
  EXPECT_EQ(reachable(config, 3), reachable(config, 23));  // the same each day
  EXPECT_NE(reachable(config, 3), reachable(config, 4));
  std::vector<int> days(sizes.size(), 0);
  for (std::uint64_t round = 0; round < 10; ++round) {
    const auto now = reachable(config, round);
    int there = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
      days[i] += now[i];
      there += now[i];
    }
    EXPECT_NEAR(there, 1200, 5 * std::sqrt(4000 * 0.3 * 0.7));  // spread around the clock
  }
  for (const int rounds : days) EXPECT_EQ(rounds, 3);

  config.spread = 0;
  EXPECT_EQ(reachable(config, 2), std::vector<std::uint8_t>(4000, 1));
  EXPECT_EQ(reachable(config, 3), std::vector<std::uint8_t>(4000, 0));
  config.spread = 0.1;  // one time zone: no client at night
  EXPECT_EQ(reachable(config, 8), std::vector<std::uint8_t>(4000, 0));
  EXPECT_EQ(reachable(config, 1), std::vector<std::uint8_t>(4000, 1));
}

TEST_F(Available, Nests) {
  const std::string trace = file("trace.csv", "client,start,end\n0,0,1\n1,0,1\n");
  const auto selector = configured("{share: 1, selector: {name: available, trace: " + trace + "}}");
  const std::vector<double> sizes(5, 1);
  EXPECT_THAT(selector->select({.sizes = sizes, .count = 4}), UnorderedElementsAre(0, 1));
  EXPECT_TRUE(selector->select({.sizes = sizes, .count = 4, .round = 1}).empty());
  EXPECT_THROW(configured("{selector: unifrom}"), ConfigError);
  EXPECT_THROW(configured("{trace: " + (folder_ / "none.csv").string() + "}"), ConfigError);
}

}  // namespace
}  // namespace chorus::inline selection
