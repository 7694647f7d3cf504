// What the events of a round and the log say about secure sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/console/log.h"
#include "tests/word_clients.h"

namespace chorus::inline secure_mean {
namespace {

using testing::HasSubstr;
using testing::Not;

/// What a few rounds write into the log.
std::string log_of(const std::string& options, const std::string& name = "secagg", int rounds = 3) {
  testing::internal::CaptureStderr();
  WordTrial trial(options, name);
  for (int round = 0; round < rounds; ++round) trial.step();
  return testing::internal::GetCapturedStderr();
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// With rare rows there are two sums, and a model of the cost must charge both.
TEST(SumEvents, AModelledSumReportsWhatARealOneNeeds) {
  for (const std::string protocol : {"secagg", "secagg_plus", "light_secagg"}) {
    for (const std::string rare : {"0", "2"}) {
      const std::string options = "{clip: 2, rare_rows: " + rare;
      WordTrial real(options + "}", protocol), modelled(options + ", mode: cost}", protocol);
      auto expected = real.round().numbers, numbers = modelled.round().numbers;
      EXPECT_EQ(numbers.at("secure_bytes_up"), real.clients.bytes_up) << protocol << " " << rare;
      EXPECT_GT(numbers.at("secure_bytes_down"), 0);
      EXPECT_EQ(numbers.erase("secure_bytes_up") + numbers.erase("secure_bytes_down"), 2U);
      EXPECT_EQ(numbers, expected) << protocol << " " << rare;
      if (rare == "2") {
        EXPECT_EQ(numbers.at("secure_rows_left_out"), 1);
      }
    }
  }
}

// 7 of an update's 22 elements are beyond the clip. A group without a sum says nothing about it.
TEST(SumEvents, TheCutOfGroupsIsTheMeanOverThoseWithASum) {
  const std::vector<std::set<std::int64_t>> nine(9, {0});
  WordTrial trial("{groups: 3, rule: mean, sum: {name: secagg, clip: 0.05}}", "secure_groups", nine);
  trial.clients.failing = {4};
  const auto numbers = trial.round().numbers;
  EXPECT_EQ(numbers.at("secure_groups"), 2);
  EXPECT_NEAR(numbers.at("secure_cut"), 7.0 / 22, 1e-9);
}

// Norms of the updates are about 0.3, 0.6, 0.9 (here with two rows: 1.1), ...
TEST(SumEvents, UpdatesThatAreScaledDownAreCounted) {
  for (const std::string mode : {"real", "cost"}) {
    EXPECT_NEAR(WordTrial("{clip: 2, norm: 0.5, mode: " + mode + "}").round().numbers.at("secure_shrunk"), 0.8, 1e-9);
    EXPECT_EQ(WordTrial("{clip: 2, norm: 9, mode: " + mode + "}").round().numbers.at("secure_shrunk"), 0);
    EXPECT_FALSE(WordTrial("{clip: 2, mode: " + mode + "}").round().numbers.contains("secure_shrunk"));
  }
  // Cut off is what is beyond the clip after that.
  EXPECT_EQ(WordTrial("{clip: 0.25, norm: 0.5}").round().numbers.at("secure_cut"), 0);
}

TEST(SumEvents, AClipThatCutsMuchIsWarnedOfOnce) {
  for (const std::string mode : {"real", "cost"}) {
    EXPECT_EQ(times(log_of("{clip: 0.05, mode: " + mode + "}"), "are cut off at clip 0.05; raise aggregation.clip"),
              1U);
    EXPECT_THAT(log_of("{clip: 2, mode: " + mode + "}"), Not(HasSubstr("cut off")));
  }
}

// After a sum of counts fewer clients are left, and a sum over them may bear fewer dropouts than are allowed for.
TEST(SumEvents, ASecondSumThatCannotBeIsAbandonedAndTheRunGoesOn) {
  for (const std::string mode : {"real", "cost"}) {
    WordTrial trial("{clip: 2, rare_rows: 2, dropout: 0.4, mode: " + mode + "}", "secagg_plus",
                    {{0}, {0}, {0, 1}, {0}});
    EXPECT_TRUE(trial.step()) << mode;
    if (mode == "cost") continue;  // who fails is not in its sum of counts either, and both sums have four
    trial.clients.failing = {1};
    const Aggregated lost = trial.round();
    EXPECT_FALSE(lost.means[0].defined());
    EXPECT_EQ(lost.clients[1].failure, "it cannot train");
    EXPECT_THAT(lost.clients[0].failure, HasSubstr("the secure sum was abandoned: secagg_plus: of 3 clients"));
    trial.clients.real = true;  // then the round is not over
    EXPECT_THROW(trial.round(), TooFewReplies);
    trial.clients.failing.clear();
    EXPECT_TRUE(trial.step());
  }
}

// Of the cohorts that are summed: an algorithm may deal out a round's clients, or buffer their updates.
TEST(SumEvents, TheLogNamesTheThresholdsOfTheSums) {
  const std::string log = log_of("{groups: 2, rule: mean, sum: {name: secagg, clip: 2}}", "secure_groups");
  EXPECT_EQ(times(log, "secure_groups: 2 groups of 2 or 3 clients, combined by mean"), 1U);
  EXPECT_EQ(times(log, "secagg (semi-honest server): 2 neighbours per client, threshold 2, 1 of them may collude"), 1U);
  EXPECT_THAT(log, HasSubstr("secagg in a ring of 32 bits: 3 clients"));
  testing::internal::CaptureStderr();
  const WordTrial not_yet("{clip: 2}");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "before the first sum its cohort is not known";
}

TEST(SumEvents, TheLogNamesTheRing) {
  EXPECT_EQ(
      times(log_of("{clip: 2}"), "secagg in a ring of 32 bits: 5 clients, 16 bits per element, weights up to 1000"),
      1U);
  EXPECT_THAT(log_of("{clip: 2, bits: 31}", "secagg_plus"), HasSubstr("secagg_plus in a ring of 64 bits"));
  EXPECT_THAT(log_of("{clip: 2, bits: 31}", "light_secagg"), HasSubstr("light_secagg in a field of 61 bits"));
}

}  // namespace
}  // namespace chorus::inline secure_mean
