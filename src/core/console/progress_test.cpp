#include "core/console/progress.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/console/terminal.h"

namespace chorus::inline console {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ProgressTest : public ::testing::Test {
 protected:
  ProgressOptions options(std::int64_t total, bool terminal, std::size_t columns = 80) {
    ProgressOptions result;
    result.label = "train";
    result.total = total;
    result.terminal = terminal;
    result.columns = columns;
    result.write = [this](std::string_view text) { written_.emplace_back(text); };
    result.clock = [this] { return now_; };
    return result;
  }

  std::vector<std::string> written_;
  double now_ = 100;
};

TEST_F(ProgressTest, PipeGetsALineEachTenthAndAtTheEnd) {
  Progress progress(options(100, false));
  for (int i = 0; i < 100; ++i) {
    now_ += 1;
    if (i == 49) progress.note("loss 0.5");
    progress.advance();
  }
  progress.finish();
  progress.finish();  // once is enough
  ASSERT_EQ(written_.size(), 10U);
  EXPECT_EQ(written_[0], "train: 10 % (10/100), 1.0 steps/s, 0:10 elapsed, 1:30 left\n");
  EXPECT_THAT(written_[4], EndsWith("0:50 left, loss 0.5\n"));
  EXPECT_EQ(written_[9], "train: 100 steps in 1:40, 1.0 steps/s, loss 0.5\n");
}

TEST_F(ProgressTest, PipeIsNotFloodedByFastWorkNorSilentInSlowWork) {
  {
    Progress fast(options(1000, false));
    for (int i = 0; i < 1000; ++i) {
      now_ += 0.0001;
      fast.advance();
    }
    fast.finish();
  }
  EXPECT_EQ(written_.size(), 1U);
  written_.clear();
  Progress slow(options(1000, false));
  for (int i = 0; i < 7; ++i) {
    now_ += 10;
    slow.advance();
  }
  EXPECT_EQ(written_.size(), 2U);
  EXPECT_THAT(written_[0], HasSubstr("10.0 s per step"));
}

TEST_F(ProgressTest, TerminalIsRedrawnAtMostTenTimesASecond) {
  Progress progress(options(1000, true));
  const std::size_t before = written_.size();
  for (int i = 0; i < 1000; ++i) {
    now_ += 0.001;
    progress.advance();
  }
  EXPECT_GE(written_.size() - before, 8U);
  EXPECT_LE(written_.size() - before, 10U);
  EXPECT_THAT(written_.back(), HasSubstr("left"));
  progress.finish();
  EXPECT_EQ(written_.back(), "train: 1000 steps in 0:01, 1000 steps/s\n");
  for (std::size_t i = 0; i + 1 < written_.size(); ++i) EXPECT_THAT(written_[i], StartsWith("\r\x1b[K"));
}

TEST_F(ProgressTest, TheLineFitsTheTerminal) {
  for (std::size_t columns : {1U, 2U, 10U, 20U, 40U, 60U, 80U, 200U}) {
    written_.clear();
    Progress progress(options(1000, true, columns));
    progress.note("精度 0.87 with quite some more text behind it, in case it is narrow");
    now_ += 5;
    progress.advance(437);
    ASSERT_FALSE(written_.empty());
    const std::string line = written_.back().substr(4);
    EXPECT_LT(display_width(line), std::max<std::size_t>(columns, 1)) << columns;
    if (columns == 200) {
      EXPECT_THAT(line, HasSubstr(" 43 % ━━━━━━━━━━━━━┈┈"));
      EXPECT_THAT(line, HasSubstr("437/1000  87.4 steps/s  0:05, 0:06 left  精度"));
    }
  }
}

TEST_F(ProgressTest, UnknownTotalAndResumedWork) {
  ProgressOptions resumed = options(100, false);
  resumed.initial = 50;
  Progress progress(resumed);
  now_ += 10;
  progress.set(60);
  ASSERT_EQ(written_.size(), 1U);
  EXPECT_THAT(written_[0], HasSubstr("60 % (60/100), 1.0 steps/s, 0:10 elapsed, 0:40 left"));
  written_.clear();
  Progress open(options(0, true));
  now_ += 2;
  open.advance(10);
  EXPECT_THAT(written_.back(), HasSubstr("train 10 steps  5.0 steps/s  0:02"));
}

TEST_F(ProgressTest, AnExceptionSaysWhereItStopped) {
  try {
    Progress progress(options(10, false));
    progress.advance(3);
    throw std::runtime_error("x");
  } catch (const std::runtime_error&) {
  }
  ASSERT_EQ(written_.size(), 1U);
  EXPECT_THAT(written_[0], AllOf(HasSubstr("30 % (3/10)"), EndsWith("stopped\n")));
}

TEST_F(ProgressTest, LogLinesStandAboveTheBar) {
  set_log_level(LogLevel::kInfo);
  Progress progress(options(10, true));
  written_.clear();
  Log("area").warning("{} and \x1b[31m", "text");
  ASSERT_EQ(written_.size(), 2U);
  EXPECT_THAT(written_[0], StartsWith("\r\x1b[K"));
  EXPECT_THAT(written_[0], HasSubstr("[area] warning: text and \xEF\xBF\xBD[31m"));
  EXPECT_THAT(written_[0], ::testing::AnyOf(EndsWith("\n"), EndsWith("\x1b[0m\n")));
  EXPECT_THAT(written_[1], HasSubstr("train   0 %"));
  Log("area").debug("not shown");
  EXPECT_EQ(written_.size(), 2U);
}

TEST_F(ProgressTest, AnInnerBarHidesTheOuterOne) {
  Progress outer(options(10, true));
  {
    ProgressOptions inner_options = options(10, true);
    inner_options.label = "inner";
    Progress inner(inner_options);
    written_.clear();
    now_ += 1;
    outer.advance();
    EXPECT_TRUE(written_.empty());
    inner.advance();
    EXPECT_THAT(written_.back(), HasSubstr("inner"));
    inner.finish();
  }
  EXPECT_THAT(written_.back(), HasSubstr("train  10 %"));
}

TEST_F(ProgressTest, QuietShowsNothing) {
  set_progress_enabled(false);
  {
    Progress progress(options(10, true));
    Progress plain(options(10, false));
    now_ += 100;
    progress.advance(5);
    plain.advance(5);
    plain.finish();
  }
  set_progress_enabled(true);
  EXPECT_TRUE(written_.empty());
}

TEST_F(ProgressTest, ThreadsMayShareABar) {
  Progress progress(options(4000, false));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) progress.advance();
    });
  }
  for (std::thread& thread : threads) thread.join();
  progress.finish();
  EXPECT_THAT(written_.back(), HasSubstr("4000 steps"));
}

TEST(Duration, IsReadable) {
  EXPECT_EQ(duration_text(7.9), "0:07");
  EXPECT_EQ(duration_text(754), "12:34");
  EXPECT_EQ(duration_text(3 * 3600 + 309), "3:05:09");
  EXPECT_EQ(duration_text(51 * 3600 + 300), "2 d 03:05");
  EXPECT_EQ(duration_text(-1), "0:00");
  EXPECT_EQ(duration_text(1e300), duration_text(1e12));
}

TEST(LogLevels, AreNamed) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("off"), LogLevel::kOff);
  try {
    parse_log_level("warn");
    FAIL() << "'warn' is no level";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'warning'?"));
  }
}

}  // namespace
}  // namespace chorus::inline console
