#include "application/metrics/python_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "core/base/utf8.h"

namespace chorus::python_text {
namespace {

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

// Case_Ignorable (Unicode, section 3.13): marks, format characters, modifiers, and Word_Break = MidLetter, MidNumLet or
// Single_Quote.
bool is_case_ignorable(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  constexpr std::u32string_view kInsideWords =
      U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  return kInsideWords.find(code) != std::u32string_view::npos;
}

// Cased: letters with case, and the other lower and upper case characters that are not case-ignorable.
bool is_cased(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      break;
  }
  const auto in = [code](char32_t first, char32_t last) { return code >= first && code <= last; };
  return code == 0xAA || code == 0xBA || in(0x2160, 0x217F) || in(0x24B6, 0x24E9) || in(0x1F130, 0x1F149) ||
         in(0x1F150, 0x1F169) || in(0x1F170, 0x1F189);
}

bool ends_word(std::u32string_view text, std::size_t sigma) {
  std::size_t at = sigma;
  while (at > 0 && is_case_ignorable(text[at - 1])) --at;
  if (at == 0 || !is_cased(text[at - 1])) return false;
  at = sigma + 1;
  while (at < text.size() && is_case_ignorable(text[at])) ++at;
  return at == text.size() || !is_cased(text[at]);
}

char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string lower(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), ascii_lower);
    return out;
  }
  constexpr char32_t kCapitalSigma = 0x3A3, kSigma = 0x3C3, kFinalSigma = 0x3C2, kDottedI = 0x130, kDotAbove = 0x307;
  const std::u32string codes = utf8::to_utf32(text);
  std::string out;
  out.reserve(text.size() + 4);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == kCapitalSigma) {
      utf8::append(out, ends_word(codes, i) ? kFinalSigma : kSigma);
    } else if (codes[i] == kDottedI) {
      out.push_back('i');
      utf8::append(out, kDotAbove);
    } else {
      utf8::append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(codes[i]))));
    }
  }
  return out;
}

bool is_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x1F);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_word(char32_t code) {
  if (code < 0x80)
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9') || code == '_';
  const int kind = category(code);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) ||
         (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO);
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    if (!is_space(utf8::next(text, at))) continue;
    if (here > begin) parts.emplace_back(text.substr(begin, here - begin));
    begin = at;
  }
  if (begin < text.size()) parts.emplace_back(text.substr(begin));
  return parts;
}

}  // namespace chorus::python_text
