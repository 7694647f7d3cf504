#include "infrastructure/egress/egress_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "core/files/files.h"
#include "tests/support.h"

namespace chorus::inline egress {
namespace {

using testing::HasSubstr;

class EgressTest : public testing::Test {
 protected:
  void append(int count, std::time_t time = 1'000'000) const {
    EgressLog log(path_);
    for (int i = 0; i < count; ++i) {
      log.append({"reply to \"train\"", "server:1", "00ff", 3, 100, sha256_hex(std::to_string(i)), time});
    }
  }
  void replace(const std::string& what, const std::string& with) const {
    std::string text = read_file(path_);
    text.replace(text.find(what), what.size(), with);
    std::ofstream(path_, std::ios::binary) << text;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "egress.jsonl";
};

TEST_F(EgressTest, TheChainContinuesOverRestarts) {
  append(2);
  append(3);
  const EgressReport report = read_egress(path_);
  EXPECT_EQ(report.broken, "");
  ASSERT_EQ(report.entries.size(), 5U);
  EXPECT_EQ(report.entries[4].what, "reply to \"train\"");
  EXPECT_EQ(report.entries[4].bytes, 100U);
  EXPECT_EQ(report.head, EgressLog(path_).head());
}

TEST_F(EgressTest, AnyChangeShows) {
  append(3);
  const std::string good = read_file(path_);
  replace("\"bytes\":100", "\"bytes\":1");
  EXPECT_EQ(read_egress(path_).broken, "line 1 was changed: its hash does not fit");
  EXPECT_THAT(message_of<DataError>([&] { EgressLog{path_}; }), HasSubstr("keep the file as evidence"));
  const std::size_t first = good.find('\n') + 1, second = good.find('\n', first) + 1;
  std::ofstream(path_, std::ios::binary) << good.substr(0, first) << good.substr(second);  // one is missing
  EXPECT_EQ(read_egress(path_).broken, "line 2 does not follow the line before it");
  std::ofstream(path_, std::ios::binary) << good.substr(first);
  EXPECT_EQ(read_egress(path_).broken, "line 1 does not follow the line before it");
  std::ofstream(path_, std::ios::binary) << "{}\n";
  EXPECT_EQ(read_egress(path_).broken, "line 1 is no entry");
}

TEST_F(EgressTest, ALineThatWasCutByAPowerFailureIsReplacedByANote) {
  append(2);
  const std::string good = read_file(path_);
  std::ofstream(path_, std::ios::binary) << good.substr(0, good.size() - 5);
  EXPECT_EQ(read_egress(path_).broken, "line 2 is incomplete");
  append(1);
  const EgressReport report = read_egress(path_);
  EXPECT_EQ(report.broken, "");
  ASSERT_EQ(report.entries.size(), 3U);
  EXPECT_EQ(report.entries[1].what, "line 2 of this log was incomplete and was removed");
}

TEST_F(EgressTest, BytesAreCountedByDay) {
  append(3);
  append(1, 1'000'000 + 86'400);
  const EgressLog log(path_);
  EXPECT_EQ(log.bytes_on_day_of(1'000'000 + 86'400), 100U);
  EXPECT_EQ(log.bytes_on_day_of(1'000'000 + 2 * 86'400), 0U);
}

TEST_F(EgressTest, AClockThatStepsBackAcrossMidnightForgetsNoBytes) {
  constexpr std::time_t kMidnight = 12 * 86'400;
  EgressLog log(path_);
  for (const std::time_t time : {kMidnight + 5, kMidnight - 5, kMidnight + 5}) log.append({.bytes = 100, .time = time});
  EXPECT_EQ(log.bytes_on_day_of(kMidnight), 200U);
  EXPECT_EQ(log.bytes_on_day_of(kMidnight - 1), 100U);
}

TEST_F(EgressTest, OneProcessAtATime) {
  const EgressLog log(path_);
  EXPECT_THAT(message_of<WorldError>([&] { EgressLog{path_}; }), HasSubstr("running already"));
}

// FIPS 180-2, appendix B.1.
TEST(Sha256, OfAbc) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(EgressLedgers, TheLastMarksOfARunAreKnownAgain) {
  const TemporaryFolder folder;
  const auto path = folder / "egress.jsonl";
  {
    EgressLog log(path);
    log.append({.what = "reply", .run = "1", .ledgers = {{"examples.ledger", "a:1"}, {"labels.ledger", "b:1"}}});
    log.append({.what = "reply", .run = "1", .ledgers = {{"examples.ledger", "a:2"}}});
    log.append({.what = "refusal", .run = "1"});
    log.append({.what = "reply", .run = "2", .ledgers = {{"examples.ledger", "c:9"}}});
  }
  const EgressLog log(path);
  EXPECT_EQ(log.ledgers_of("1"),
            (std::map<std::string, std::string>{{"examples.ledger", "a:2"}, {"labels.ledger", "b:1"}}));
  EXPECT_EQ(log.ledgers_of("2").at("examples.ledger"), "c:9");
  EXPECT_TRUE(log.ledgers_of("3").empty());
}

}  // namespace
}  // namespace chorus::inline egress
