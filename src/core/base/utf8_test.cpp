#include "core/base/utf8.h"

#include <gtest/gtest.h>

namespace chorus::inline base {
namespace {

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    utf8::append(text, code);
    ASSERT_TRUE(utf8::valid(text)) << std::hex << static_cast<unsigned>(code);
    std::size_t at = 0;
    ASSERT_EQ(utf8::next(text, at), code);
    ASSERT_EQ(at, text.size());
  }
}

TEST(Utf8, WritesWhatIsNoCodePointAsReplacement) {
  std::string text;
  utf8::append(text, 0xD800);
  utf8::append(text, 0x110000);
  EXPECT_EQ(text, "\xEF\xBF\xBD\xEF\xBF\xBD");
}

// Python: b.decode("utf-8", errors="replace")
TEST(Utf8, ReplacesEachMaximalInvalidPartOnce) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(utf8::replace_invalid("plain"), "plain");
  EXPECT_EQ(utf8::replace_invalid("a\x80z"), "a" + r + "z");
  EXPECT_EQ(utf8::replace_invalid("a\xC0\xAFz"), "a" + r + r + "z");             // overlong
  EXPECT_EQ(utf8::replace_invalid("\xED\xA0\x80"), r + r + r);                   // a surrogate
  EXPECT_EQ(utf8::replace_invalid("\xF4\x90\x80\x80"), r + r + r + r);           // above U+10FFFF
  EXPECT_EQ(utf8::replace_invalid("\xE2\x82"), r);                               // cut off
  EXPECT_EQ(utf8::replace_invalid("\xF0\x9F\x98z"), r + "z");                    // truncated, then a letter
  EXPECT_EQ(utf8::replace_invalid("\xE2\x82\xE2\x82\xAC"), r + "\xE2\x82\xAC");  // truncated, then a complete one
  EXPECT_EQ(utf8::replace_invalid("long ascii text \xFF!"), "long ascii text " + r + "!");
  EXPECT_FALSE(utf8::valid("long ascii text \xFF!"));
}

TEST(Utf8, CountsAndCutsInCodePoints) {
  const std::string text = "na\xC3\xAFve \xF0\x9F\xA6\x99 caf\xC3\xA9\xFF";
  EXPECT_EQ(utf8::count(text), 13u);
  EXPECT_EQ(utf8::slice(text, 2, 5), "\xC3\xAFve");
  EXPECT_EQ(utf8::slice(text, 6, 7), "\xF0\x9F\xA6\x99");
  EXPECT_EQ(utf8::slice(text, 12, 99), "\xFF");
  EXPECT_EQ(utf8::slice(text, 5, 2), "");
  EXPECT_EQ(utf8::byte_position(text, 99), text.size());
  const auto positions = utf8::byte_positions(text);
  ASSERT_EQ(positions.size(), 14u);
  EXPECT_EQ(positions[6], 7u);
  EXPECT_EQ(positions.back(), text.size());
  EXPECT_EQ(utf8::to_utf8(utf8::to_utf32(text)), utf8::replace_invalid(text));
}

}  // namespace
}  // namespace chorus::inline base
