#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// UTF-8, the one encoding of text inside Chorus. Bytes that are not UTF-8 are read as U+FFFD, one for each maximal
/// invalid part (Unicode 15, section 3.9; what Python's errors="replace" and Rust's from_utf8_lossy do), never an
/// error. Positions in texts (answers, tags, tokenizer offsets) are counted in code points, as Python counts them.
///
///   for (std::size_t at = 0; at < text.size();) char32_t c = utf8::next(text, at);
namespace chorus::utf8 {

inline constexpr char32_t kReplacement = 0xFFFD;

/// The slow part of `next`: any byte, valid or not, from 0x80 up.
char32_t next_multibyte(std::string_view text, std::size_t& at);

/// The code point at byte `at` (which must be < text.size()); moves `at` behind it. U+FFFD where the bytes are invalid.
inline char32_t next(std::string_view text, std::size_t& at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    ++at;
    return byte;
  }
  return next_multibyte(text, at);
}

/// Writes the 1 to 4 bytes of `code` to `out` and returns how many. A surrogate or a value above U+10FFFF is written as
/// U+FFFD.
std::size_t encode(char32_t code, char* out);

/// Appends `code` to `out`.
void append(std::string& out, char32_t code);

/// All code points of `text`, and back.
std::u32string to_utf32(std::string_view text);
std::string to_utf8(std::u32string_view text);

/// Is every byte part of a well-formed sequence?
bool valid(std::string_view text);

/// The text with every invalid part replaced by U+FFFD; a copy when there is nothing to replace.
std::string replace_invalid(std::string_view text);

/// Number of code points (an invalid part counts as the one U+FFFD it is read as).
std::size_t count(std::string_view text);

/// Byte position of code point `index`; text.size() when there are not that many.
std::size_t byte_position(std::string_view text, std::size_t index);

/// The part of `text` between two code point positions, cut to what is there: Python's text[begin:end].
std::string_view slice(std::string_view text, std::size_t begin, std::size_t end);

/// Byte position of every code point, and text.size() last: turns many code point offsets into bytes at once.
std::vector<std::uint32_t> byte_positions(std::string_view text);

}  // namespace chorus::utf8
