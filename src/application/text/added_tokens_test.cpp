#include "application/text/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "application/text/base64.h"
#include "application/text/charsmap.h"
#include "application/text/subword_model.h"
#include "application/text/unicode.h"

namespace chorus::inline text {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

AddedToken added(std::string content, std::int32_t id) {
  AddedToken token;
  token.content = std::move(content);
  token.id = id;
  return token;
}

/// "id:matched text" of every match.
std::vector<std::string> matches_in(const AddedTokenFinder& finder, const std::string& text) {
  std::vector<AddedTokenFinder::Match> matches{{9, 9, 9}};
  finder.find(text, matches);
  std::vector<std::string> shown;
  for (const auto& match : matches) {
    shown.push_back(std::to_string(match.id) + ":" + text.substr(match.begin, match.end - match.begin));
  }
  return shown;
}

TEST(AddedTokens, TheLeftmostAndLongestWins) {
  const AddedTokenFinder finder({added("<a>", 1), added("<a><b>", 2), added("<b>", 3), added("", 4)});
  EXPECT_THAT(matches_in(finder, "x<a><b><b>y<a>"), ElementsAre("2:<a><b>", "3:<b>", "1:<a>"));
  EXPECT_THAT(matches_in(finder, "<a<a>"), ElementsAre("1:<a>"));
  EXPECT_THAT(matches_in(finder, "none here"), IsEmpty());
  EXPECT_THAT(matches_in(finder, ""), IsEmpty());
  EXPECT_TRUE(AddedTokenFinder().empty());
  EXPECT_TRUE(AddedTokenFinder({added("", 4)}).empty());
}

TEST(AddedTokens, SwallowWhiteSpaceWhereTheyAskForIt) {
  AddedToken left = added("<m>", 1), right = added("<r>", 2);
  left.lstrip = true;
  right.rstrip = true;
  const AddedTokenFinder finder({left, right});
  EXPECT_THAT(matches_in(finder, "a \t<m> b"), ElementsAre("1: \t<m>"));
  EXPECT_THAT(matches_in(finder, "a <r> \n b"), ElementsAre("2:<r> \n "));
  // White space that one token took is not taken again.
  EXPECT_THAT(matches_in(finder, "<r>  <m>"), ElementsAre("2:<r>  ", "1:<m>"));
  // U+3000 is white space too, and three bytes.
  EXPECT_THAT(matches_in(finder, "a\u3000<m>"), ElementsAre("1:\u3000<m>"));
  EXPECT_THAT(matches_in(finder, "  <m>"), ElementsAre("1:  <m>"));
}

TEST(AddedTokens, SingleWordsTouchNoWord) {
  AddedToken token = added("new", 5);
  token.single_word = true;
  const AddedTokenFinder finder({token});
  EXPECT_THAT(matches_in(finder, "new news anew new, (new) né-new énew new_"),
              ElementsAre("5:new", "5:new", "5:new", "5:new"));
}

TEST(Base64, IsThatOfRfc4648) {
  // Section 10 of the RFC, and bytes that need both special characters.
  const std::pair<std::string, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"},
                                                       {std::string("\0\xff\xfe\x10", 4), "AP/+EA=="}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  EXPECT_EQ(from_base64("Zm8"), "fo") << "padding may be missing";
  for (const char* bad : {"Z", "Zm9vY", "Zm 8=", "Zm\n8", "Zm-_", "Z=g="}) {
    EXPECT_FALSE(from_base64(bad).has_value()) << bad;
  }
}

TEST(ByteAlphabet, PrintsEveryByteAsGpt2Does) {
  // openai/gpt-2, encoder.py, bytes_to_unicode.
  EXPECT_EQ(byte_alphabet().size(), 256U);
  EXPECT_EQ(byte_alphabet()[0], U'\u0100');
  EXPECT_EQ(byte_alphabet()[' '], U'\u0120');   // Ġ
  EXPECT_EQ(byte_alphabet()['\n'], U'\u010A');  // Ċ
  EXPECT_EQ(byte_alphabet()['!'], U'!');
  EXPECT_EQ(byte_alphabet()[0x7F], U'\u0121');
  EXPECT_EQ(byte_alphabet()[0xA1], U'\u00A1');
  EXPECT_EQ(byte_alphabet()[0xAD], U'\u0143');  // the soft hyphen, the last that does not print
  EXPECT_EQ(byte_alphabet()[0xFF], U'\u00FF');
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(alphabet_byte(byte_alphabet()[static_cast<std::size_t>(byte)]), byte);
  }
  EXPECT_EQ(alphabet_byte(U' '), -1);
  EXPECT_EQ(alphabet_byte(U'中'), -1);
  EXPECT_EQ(alphabet_byte(0x10FFFF), -1);
  EXPECT_EQ(spell_bytes(" é\n"), "ĠÃ©Ċ");
  EXPECT_EQ(raw_bytes("ĠÃ©Ċ"), " é\n");
  EXPECT_EQ(raw_bytes("中Ġ"), "中 ") << "what is outside the alphabet stays";
  EXPECT_EQ(byte_token(0x0A), "<0x0A>");
  EXPECT_EQ(byte_token(0xFF), "<0xFF>");
}

TEST(Unicode, ClassesOfCharacters) {
  using unicode::Kind;
  struct Case {
    char32_t code;
    Kind kind;
    bool punctuation, control, cjk, mark, word;
  };
  // Unicode 15, UnicodeData.txt and PropList.txt.
  const Case cases[] = {{U'a', Kind::kLetter, false, false, false, false, true},
                        {U'7', Kind::kNumber, false, false, false, false, true},
                        {U' ', Kind::kSpace, false, false, false, false, false},
                        {U'\t', Kind::kSpace, false, false, false, false, false},
                        {U'_', Kind::kOther, true, false, false, false, true},
                        {U'$', Kind::kOther, true, false, false, false, false},  // a symbol, but BERT's punctuation
                        {U'+', Kind::kOther, true, false, false, false, false},
                        {0x20AC, Kind::kOther, false, false, false, false, false},  // euro: a symbol outside ASCII
                        {0x00AD, Kind::kOther, false, true, false, false, false},   // soft hyphen, Cf
                        {0x200B, Kind::kOther, false, true, false, false, false},   // zero width space, Cf
                        {0x00A0, Kind::kSpace, false, false, false, false, false},  // no-break space
                        {0x3000, Kind::kSpace, false, false, false, false, false},
                        {0x0085, Kind::kSpace, false, true, false, false, false},  // next line: Cc and White_Space
                        {0x0301, Kind::kOther, false, false, false, true, true},   // combining acute accent
                        {0x0903, Kind::kOther, false, false, false, true, true},   // Devanagari visarga, Mc
                        {0x4E2D, Kind::kLetter, false, false, true, false, true},
                        {0x20000, Kind::kLetter, false, false, true, false, true},
                        {0x3042, Kind::kLetter, false, false, false, false, true},  // Hiragana is no ideograph
                        {0xAC00, Kind::kLetter, false, false, false, false, true},
                        {0x2167, Kind::kNumber, false, false, false, false, true},  // Roman numeral: Nl, and Alphabetic
                        {0x00BF, Kind::kOther, true, false, false, false, false},
                        {0xE000, Kind::kOther, false, true, false, false, false}};  // private use
  for (const Case& one : cases) {
    const auto code = static_cast<std::uint32_t>(one.code);
    EXPECT_EQ(unicode::kind(one.code), one.kind) << std::hex << code;
    EXPECT_EQ(unicode::is_bert_punctuation(one.code), one.punctuation) << std::hex << code;
    EXPECT_EQ(unicode::is_control(one.code), one.control) << std::hex << code;
    EXPECT_EQ(unicode::is_cjk(one.code), one.cjk) << std::hex << code;
    EXPECT_EQ(unicode::is_mark(one.code), one.mark) << std::hex << code;
    EXPECT_EQ(unicode::is_word(one.code), one.word) << std::hex << code;
  }
  EXPECT_TRUE(unicode::is_nonspacing_mark(0x0301));
  EXPECT_FALSE(unicode::is_nonspacing_mark(0x0903));
}

TEST(Unicode, LowersAndDecomposes) {
  EXPECT_EQ(unicode::lower(U'Ä').first, U'ä');
  EXPECT_EQ(unicode::lower(U'ä').first, U'ä');
  EXPECT_EQ(unicode::lower(0x0130).first, U'i');  // İ: the one that becomes two
  EXPECT_EQ(unicode::lower(0x0130).second, char32_t{0x0307});
  EXPECT_EQ(unicode::lower(U'A').second, char32_t{0});
  const auto parts = [](char32_t code, bool compatibility) {
    char32_t out[unicode::kMaxDecomposition];
    return std::u32string(out, unicode::decompose(code, compatibility, out));
  };
  EXPECT_EQ(parts(U'é', false), U"e\u0301");
  EXPECT_EQ(parts(0x1E69, false), U"s\u0323\u0307");
  EXPECT_EQ(parts(0xFB01, false), U"\uFB01");
  EXPECT_EQ(parts(0xFB01, true), U"fi");
  EXPECT_EQ(parts(0xAC01, false), U"\u1100\u1161\u11A8");  // Hangul by arithmetic
  EXPECT_EQ(parts(0xFDFA, true).size(), 18U);              // the longest there is
  EXPECT_EQ(unicode::combining_class(0x0301), 230);
  EXPECT_EQ(unicode::combining_class(0x0323), 220);
  EXPECT_EQ(unicode::combining_class(U'a'), 0);
}

TEST(Unicode, GraphemesKeepTogether) {
  const auto breaks = [](std::u32string_view text) {
    std::string shown;
    std::int32_t state = 0;
    for (std::size_t i = 1; i < text.size(); ++i) {
      shown += unicode::grapheme_break(text[i - 1], text[i], state) ? '|' : '.';
    }
    return shown;
  };
  EXPECT_EQ(breaks(U"ab"), "|");
  EXPECT_EQ(breaks(U"e\u0301x"), ".|");
  EXPECT_EQ(breaks(U"\r\n\n"), ".|");
  EXPECT_EQ(breaks(U"\U0001F1E9\U0001F1EA\U0001F1EB\U0001F1F7"), ".|.");  // flags go by two
  EXPECT_EQ(breaks(U"\U0001F469\u200D\U0001F467"), "..");                 // a family is one
}

/// The units of a double-array trie (Darts-clone) for one key: a byte at a time, each node after the last.
std::string charsmap_for(std::string_view key, std::string_view replacement, std::uint32_t pool_at = 0) {
  // Node i lies at units[256 * i + byte]; offset() of a unit XOR its own index leads to 256 * (i + 1).
  std::vector<std::uint32_t> units(256 * (key.size() + 2), 0);
  std::uint32_t node = 256;
  const auto with_offset = [](std::uint32_t offset) { return offset << 10; };
  units[0] = with_offset(node);
  for (std::size_t i = 0; i < key.size(); ++i) {
    const auto byte = static_cast<unsigned char>(key[i]);
    const std::uint32_t at = node ^ byte;
    const std::uint32_t next = static_cast<std::uint32_t>(256 * (i + 2));
    const bool last = i + 1 == key.size();
    if (units.size() <= next) units.resize(next + 256, 0);
    units[at] = with_offset(at ^ next) | byte | (last ? 1U << 8 : 0U);
    node = next;
  }
  units[node] = 0x80000000U | pool_at;  // the leaf: where the replacement begins
  std::string bytes(4, '\0');
  const auto size = static_cast<std::uint32_t>(units.size() * 4);
  std::memcpy(bytes.data(), &size, 4);
  bytes.append(reinterpret_cast<const char*>(units.data()), size);
  bytes.append(replacement);
  bytes.push_back('\0');
  return bytes;
}

TEST(Charsmap, ReplacesWhatItsRulesName) {
  const Charsmap rules(charsmap_for("\xEF\xAC\x81", "fi"));  // the ligature
  EXPECT_EQ(rules.replacement("\xEF\xAC\x81"), "fi");
  EXPECT_EQ(rules.replacement("\xEF\xAC\x81x"), "fi") << "a prefix is enough";
  EXPECT_FALSE(rules.replacement("\xEF\xAC").has_value());
  EXPECT_FALSE(rules.replacement("f").has_value());
  EXPECT_FALSE(rules.replacement("").has_value());
  EXPECT_FALSE(rules.replacement(std::string_view("\0", 1)).has_value());
  const Charsmap removes(charsmap_for("\xC2\xAD", ""));
  EXPECT_EQ(removes.replacement("\xC2\xAD"), "");
}

TEST(Charsmap, DamagedRulesAreRefusedOrHarmless) {
  const std::string whole = charsmap_for("ab", "x");
  EXPECT_THROW(Charsmap(""), std::invalid_argument);
  EXPECT_THROW(Charsmap("abc"), std::invalid_argument);
  EXPECT_THROW(Charsmap(whole.substr(0, 20)), std::invalid_argument) << "the trie is cut off";
  std::string odd = whole;
  odd[0] = 3;
  EXPECT_THROW(Charsmap{odd}, std::invalid_argument) << "no whole units";
  EXPECT_THROW(Charsmap(whole + "\xff"), std::invalid_argument) << "not UTF-8";
  EXPECT_FALSE(Charsmap(std::string(4, '\0')).replacement("ab").has_value()) << "no rules";
  // A replacement beyond the pool, and a pool without its end.
  EXPECT_FALSE(Charsmap(charsmap_for("ab", "x", 1000)).replacement("ab").has_value());
  EXPECT_EQ(Charsmap(whole.substr(0, whole.size() - 1)).replacement("ab"), "x");
  // Whatever a unit says, nothing past the trie is read (the sanitizers check).
  for (std::size_t at = 4; at < 12 + 256 * 4; at += 4) {
    std::string changed = whole;
    for (std::size_t i = 0; i < 4; ++i) changed[at + i] = '\x7f';
    const Charsmap rules(changed);
    for (const char* text : {"a", "ab", "zz", "\xff\xff"}) (void)rules.replacement(text);
  }
}

}  // namespace
}  // namespace chorus::inline text
