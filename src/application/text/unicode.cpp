#include "application/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace chorus::unicode {

namespace {

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

constexpr Kind O = Kind::kOther;
constexpr Kind L = Kind::kLetter;
constexpr Kind N = Kind::kNumber;
constexpr Kind S = Kind::kSpace;

bool is_wide_space(char32_t code) {
  switch (code) {
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return code >= 0x2000 && code <= 0x200A;
  }
}

}  // namespace

// clang-format off
const Kind kAsciiKinds[128] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O};
// clang-format on

Kind kind_of_wide(char32_t code) {
  if (is_wide_space(code)) return Kind::kSpace;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return Kind::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Kind::kNumber;
    default:
      return Kind::kOther;
  }
}

bool is_bert_punctuation(char32_t code) {
  if (code < 128) return code > 32 && code != 127 && kAsciiKinds[code] == Kind::kOther;
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool is_control(char32_t code) {
  if (code < 128) return (code < 32 && code != '\t' && code != '\n' && code != '\r') || code == 127;
  const auto c = category(code);
  return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

bool is_cjk(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

bool is_nonspacing_mark(char32_t code) { return code >= 128 && category(code) == UTF8PROC_CATEGORY_MN; }

bool is_mark(char32_t code) {
  if (code < 128) return false;
  const auto c = category(code);
  return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

bool is_word(char32_t code) {
  const Kind k = kind(code);
  if (k == Kind::kLetter || is_mark(code)) return true;
  const auto c = category(code);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_PC;
}

Lowered lower(char32_t code) {
  if (code == 0x130) return {'i', 0x307};
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), 0};
}

std::size_t decompose(char32_t code, bool compatibility, char32_t* out) {
  std::array<utf8proc_int32_t, kMaxDecomposition> buffer;
  int boundary = 0;
  const int options = UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), buffer.data(),
                                         static_cast<utf8proc_ssize_t>(buffer.size()),
                                         static_cast<utf8proc_option_t>(options), &boundary);
  if (n <= 0 || static_cast<std::size_t>(n) > buffer.size()) {
    out[0] = code;
    return 1;
  }
  std::copy_n(buffer.begin(), n, out);
  return static_cast<std::size_t>(n);
}

int combining_class(char32_t code) {
  return code < 128 ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

bool grapheme_break(char32_t left, char32_t right, std::int32_t& state) {
  return utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(left), static_cast<utf8proc_int32_t>(right),
                                          &state);
}

}  // namespace chorus::unicode
