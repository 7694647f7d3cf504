#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// Character classes and mappings for tokenizers, equal to the Hugging Face library's for every code point. That
/// library uses tables of several Unicode versions (8 to 16); ours are generated from it (unicode_tables.h).
/// Decompositions and combining classes never change once a character has them, so those come from utf8proc, for the
/// characters that the library knows. ASCII is answered from a table.
namespace chorus::unicode {

/// The classes of GPT-2's splitting expression: \p{L}, \p{N}, \s, and the rest.
enum class Kind : std::uint8_t { kOther, kLetter, kNumber, kSpace };

Kind kind_of_wide(char32_t code);
extern const Kind kAsciiKinds[128];
inline Kind kind(char32_t code) { return code < 128 ? kAsciiKinds[code] : kind_of_wide(code); }

/// The White_Space property.
inline bool is_space(char32_t code) { return kind(code) == Kind::kSpace; }

/// BERT's punctuation: category P, and every ASCII character that is neither letter, digit, space nor control.
bool is_bert_punctuation(char32_t code);
/// What BERT removes: Cc, Cf, Co, except tab, line feed and carriage return; U+0000 and U+FFFD.
bool is_control(char32_t code);
/// The CJK ideograph blocks that BERT surrounds by spaces.
bool is_cjk(char32_t code);
/// Category Mn, and any of Mn, Mc, Me.
bool is_nonspacing_mark(char32_t code);
bool is_mark(char32_t code);
/// \w of a regular expression: letter, mark, decimal digit, connector.
bool is_word(char32_t code);

/// Full lower-casing of one character (only U+0130 becomes two).
struct Lowered {
  char32_t first;
  char32_t second;  ///< 0: none
};
Lowered lower(char32_t code);

/// Canonical (or compatibility) decomposition of one character, without reordering. Returns the number written (<= 32).
inline constexpr std::size_t kMaxDecomposition = 32;
std::size_t decompose(char32_t code, bool compatibility, char32_t* out);
/// Canonical combining class.
int combining_class(char32_t code);

/// Whether an extended grapheme cluster ends between two characters. `state` starts as 0.
bool grapheme_break(char32_t left, char32_t right, std::int32_t& state);

}  // namespace chorus::unicode
