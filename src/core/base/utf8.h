#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// UTF-8 is the only text encoding inside Chorus. Invalid bytes are read as U+FFFD, one for each maximal invalid part
/// (Unicode 15, section 3.9; as Python's errors="replace" and Rust's from_utf8_lossy), never as an error. Positions in
/// texts (answers, tags, tokenizer offsets) count code points, as in Python.
///
///   for (std::size_t at = 0; at < text.size();) char32_t c = utf8::next(text, at);
namespace chorus::utf8 {

inline constexpr char32_t kReplacement = 0xFFFD;

/// The slow path of `next`: any byte from 0x80 up, valid or not.
char32_t next_multibyte(std::string_view text, std::size_t& at);

/// The code point at byte `at` (which must be < text.size()); advances `at` past it. U+FFFD for invalid bytes.
inline char32_t next(std::string_view text, std::size_t& at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    ++at;
    return byte;
  }
  return next_multibyte(text, at);
}

/// Writes the 1 to 4 bytes of `code` to `out` and returns their number. Surrogates and values above U+10FFFF become
/// U+FFFD.
std::size_t encode(char32_t code, char* out);

void append(std::string& out, char32_t code);

/// Conversions between UTF-8 and code points.
std::u32string to_utf32(std::string_view text);
std::string to_utf8(std::u32string_view text);

/// Whether every byte belongs to a well-formed sequence.
bool valid(std::string_view text);

/// A copy of the text with every invalid part replaced by U+FFFD.
std::string replace_invalid(std::string_view text);

/// Number of code points (each invalid part counts as one U+FFFD).
std::size_t count(std::string_view text);

/// Byte position of code point `index`; text.size() when the text is shorter.
std::size_t byte_position(std::string_view text, std::size_t index);

/// The text between two code point positions, clamped: Python's text[begin:end].
std::string_view slice(std::string_view text, std::size_t begin, std::size_t end);

/// Byte position of every code point, with text.size() last: converts many code point offsets at once.
std::vector<std::uint32_t> byte_positions(std::string_view text);

}  // namespace chorus::utf8
