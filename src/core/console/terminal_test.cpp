#include "core/console/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/console/log.h"
#include "tests/support.h"

namespace chorus::inline console {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

TEST(Terminal, WidthsAreColumns) {
  const std::pair<const char*, std::size_t> cases[] = {{"", 0},         {"abc", 3},  {"é", 1},
                                                       {"e\u0301", 1},                // a combining accent takes none
                                                       {"中文", 4},                   // wide
                                                       {"ｆ", 2},                     // full width
                                                       {"😀", 2},        {"a\tb", 3},  // shown as a blank
                                                       {"\x1b[31m", 5},  // escape is shown as one character
                                                       {"\xff", 1}};     // and so is a broken byte
  for (const auto& [text, width] : cases) EXPECT_EQ(display_width(text), width) << printable(text);
}

TEST(Terminal, PrintableTextObeysNothing) {
  EXPECT_EQ(printable("a\nb\tc\r"), "a b c ");
  EXPECT_EQ(printable("\x1b[2J"), "\uFFFD[2J");
  EXPECT_EQ(printable("\x07\x7f\xc2\x9b"), "\uFFFD\uFFFD\uFFFD") << "bell, delete, and CSI as one character";
  EXPECT_EQ(printable("ok é 中"), "ok é 中");
  EXPECT_EQ(printable("caf\xe9!"), "caf\uFFFD!");
}

TEST(Terminal, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(shortened("hello", 5), "hello");
  EXPECT_EQ(shortened("hello", 4), "hel…");
  EXPECT_EQ(shortened("hello", 1), "…");
  EXPECT_EQ(shortened("中文字", 6), "中文字");
  EXPECT_EQ(shortened("中文字", 5), "中文…");
  EXPECT_EQ(shortened("中文字", 4), "中…") << "a wide character does not fit into one column";
  EXPECT_EQ(shortened("", 0), "");
  for (std::size_t columns = 1; columns < 12; ++columns) {
    EXPECT_LE(display_width(shortened("e\u0301中a😀\x1b long", columns)), columns);
  }
}

TEST(Terminal, APipeIsNone) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(is_terminal(ends[1]));
  EXPECT_EQ(terminal_columns(ends[1], 93), 93U);
  EXPECT_FALSE(wants_colour(ends[1]));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Log, LevelsAreNamed) {
  for (const auto& [name, level] : {std::pair("debug", LogLevel::kDebug), std::pair("info", LogLevel::kInfo),
                                    std::pair("warning", LogLevel::kWarning), std::pair("error", LogLevel::kError),
                                    std::pair("off", LogLevel::kOff)}) {
    EXPECT_EQ(parse_log_level(name), level);
  }
  EXPECT_THAT(message_of<ConfigError>([] { (void)parse_log_level("loud"); }),
              AllOf(HasSubstr("loud"), HasSubstr("warning")));
}

TEST(Log, WritesWholeLinesOfItsLevelAndMakesThemHarmless) {
  const LogLevel before = log_level();
  set_log_level(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  const Log log("area");
  log.debug("not {}", "shown");
  log.info("{} files\x1b[2J", 3);
  log.warning("line\nbreak");
  set_log_level(LogLevel::kOff);
  log.error("silent");
  const std::string lines = testing::internal::GetCapturedStderr();
  set_log_level(before);
  EXPECT_THAT(lines, MatchesRegex("[0-9][0-9]:[0-9][0-9]:[0-9][0-9] \\[area\\] 3 files.*\n"
                                  "[0-9][0-9]:[0-9][0-9]:[0-9][0-9] \\[area\\] warning: line\n    break\n"));
  EXPECT_THAT(lines, AllOf(Not(HasSubstr("shown")), Not(HasSubstr("\x1b")), Not(HasSubstr("silent"))));
}

}  // namespace
}  // namespace chorus::inline console
