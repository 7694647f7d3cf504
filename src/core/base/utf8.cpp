#include "core/base/utf8.h"

#include <cstring>

namespace chorus::utf8 {

namespace {

unsigned char byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

/// End of the leading ASCII run from `at`, eight bytes at a time.
std::size_t skip_ascii(std::string_view text, std::size_t at) {
  while (at + 8 <= text.size()) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if (word & 0x8080808080808080ULL) break;
    at += 8;
  }
  while (at < text.size() && byte_at(text, at) < 0x80) ++at;
  return at;
}

/// Decodes one sequence that starts at or above 0x80. False when it is invalid; advances `at` either way.
bool read_multibyte(std::string_view text, std::size_t& at, char32_t& code) {
  const unsigned char lead = byte_at(text, at++);
  int more = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    more = 1;
    code = lead & 0x1Fu;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    more = 2;
    code = lead & 0x0Fu;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    more = 3;
    code = lead & 0x07u;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return false;
  }
  for (; more > 0; --more) {
    if (at >= text.size()) return false;
    const unsigned char byte = byte_at(text, at);
    if (byte < low || byte > high) return false;
    code = (code << 6) | (byte & 0x3Fu);
    ++at;
    low = 0x80;
    high = 0xBF;
  }
  return true;
}

}  // namespace

char32_t next_multibyte(std::string_view text, std::size_t& at) {
  char32_t code = 0;
  return read_multibyte(text, at, code) ? code : kReplacement;
}

std::size_t encode(char32_t code, char* out) {
  const auto put = [out](std::size_t i, char32_t byte) {
    out[i] = static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (code < 0x80) {
    put(0, code);
    return 1;
  }
  if (code < 0x800) {
    put(0, 0xC0 | (code >> 6));
    put(1, 0x80 | (code & 0x3F));
    return 2;
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) code = kReplacement;
  if (code < 0x10000) {
    put(0, 0xE0 | (code >> 12));
    put(1, 0x80 | ((code >> 6) & 0x3F));
    put(2, 0x80 | (code & 0x3F));
    return 3;
  }
  put(0, 0xF0 | (code >> 18));
  put(1, 0x80 | ((code >> 12) & 0x3F));
  put(2, 0x80 | ((code >> 6) & 0x3F));
  put(3, 0x80 | (code & 0x3F));
  return 4;
}

void append(std::string& out, char32_t code) {
  char bytes[4];
  out.append(bytes, encode(code, bytes));
}

std::u32string to_utf32(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) out.push_back(next(text, at));
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t code : text) append(out, code);
  return out;
}

bool valid(std::string_view text) {
  for (std::size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    char32_t code = 0;
    if (!read_multibyte(text, at, code)) return false;
  }
  return true;
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t kept = 0;
  for (std::size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    const std::size_t begin = at;
    char32_t code = 0;
    if (read_multibyte(text, at, code)) continue;
    out.append(text.substr(kept, begin - kept));
    append(out, kReplacement);
    kept = at;
  }
  out.append(text.substr(kept));
  return out;
}

std::size_t count(std::string_view text) {
  std::size_t total = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t run = skip_ascii(text, at);
    total += run - at;
    at = run;
    if (at == text.size()) break;
    next_multibyte(text, at);
    ++total;
  }
  return total;
}

std::size_t byte_position(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) next(text, at);
  return at;
}

std::string_view slice(std::string_view text, std::size_t begin, std::size_t end) {
  const std::size_t first = byte_position(text, begin);
  if (end <= begin) return text.substr(first, 0);
  return text.substr(first, byte_position(text.substr(first), end - begin));
}

std::vector<std::uint32_t> byte_positions(std::string_view text) {
  std::vector<std::uint32_t> positions;
  positions.reserve(text.size() + 1);
  for (std::size_t at = 0; at < text.size(); next(text, at)) positions.push_back(static_cast<std::uint32_t>(at));
  positions.push_back(static_cast<std::uint32_t>(text.size()));
  return positions;
}

}  // namespace chorus::utf8
