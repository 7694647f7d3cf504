#include "core/console/text_table.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/console/terminal.h"

namespace chorus::inline console {
namespace {

TEST(Terminal, WidthsAreWhatATerminalShows) {
  EXPECT_EQ(display_width("plain"), 5U);
  EXPECT_EQ(display_width("e\xCC\x81t\xC3\xA9"), 3U);                            // combining accent
  EXPECT_EQ(display_width("\xE4\xBD\xA0\xE5\xA5\xBD"), 4U);                      // two Chinese characters
  EXPECT_EQ(display_width("\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB"), 2U);  // woman + joiner + laptop
  EXPECT_EQ(display_width("\xE2\x9D\xA4\xEF\xB8\x8F"), 2U);                      // heart, shown as an emoji
  EXPECT_EQ(display_width(""), 0U);
}

TEST(Terminal, NothingFromAFileReachesTheTerminalRaw) {
  EXPECT_EQ(printable("a\nb\tc"), "a b c");
  EXPECT_EQ(printable("\x1b[31mred"), "\xEF\xBF\xBD[31mred");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m"),
            "\xEF\xBF\xBD"
            "1m");  // the one-character form of the escape
  EXPECT_EQ(printable("x\xFF\xC3"), "x\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Terminal, ShortensBetweenCharacters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdef", 4), "abc…");
  EXPECT_EQ(shortened("\xE4\xBD\xA0\xE5\xA5\xBD\xE5\x90\x97", 4), "\xE4\xBD\xA0…");
  EXPECT_EQ(shortened("abc", 1), "…");
  EXPECT_EQ(shortened("abc", 0), "");
}

TEST(TextTable, AlignsByDisplayWidth) {
  TextTable table({{"name"}, {"n", TextTable::Align::kRight}});
  table.add({"\xE4\xBD\xA0\xE5\xA5\xBD", "7"});
  table.add({"abcde", "123"});
  table.add_rule();
  table.add({"é"});
  EXPECT_EQ(table.render(),
            "name     n\n"
            "─────  ───\n"
            "\xE4\xBD\xA0\xE5\xA5\xBD     7\n"
            "abcde  123\n"
            "─────  ───\n"
            "é\n");
}

TEST(TextTable, WrapsTheLastColumn) {
  TextTable table({{""}, {""}});
  table.add({"key", "one two three four five six seven eight"});
  EXPECT_EQ(table.render(30), "key  one two three four five\n     six seven eight\n");
  EXPECT_EQ(table.render(), "key  one two three four five six seven eight\n");
}

TEST(TextTable, TooManyCellsAreABug) {
  TextTable table({{"one"}});
  EXPECT_THROW(table.add({"a", "b"}), InternalError);
}

}  // namespace
}  // namespace chorus::inline console
