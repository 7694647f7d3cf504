#pragma once

#include <string>
#include <string_view>

namespace chorus::inline partition {

/// Calls use(word) for each word of the text: runs of ASCII letters and digits and of non-ASCII characters, ASCII
/// lower-cased, inner apostrophes kept ("don't"). For bags of words; tokenizers are in application/text.
template <typename Use>
void for_each_word(std::string_view text, std::string& scratch, Use use) {
  const auto is_word = [](unsigned char c) {
    return c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::size_t i = 0;
  while (i < text.size()) {
    while (i < text.size() && !is_word(static_cast<unsigned char>(text[i]))) ++i;
    scratch.clear();
    while (i < text.size()) {
      const char c = text[i];
      const bool joint = c == '\'' && i + 1 < text.size() && is_word(static_cast<unsigned char>(text[i + 1]));
      if (!is_word(static_cast<unsigned char>(c)) && !joint) break;
      scratch.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
      ++i;
    }
    if (!scratch.empty()) use(std::string_view(scratch));
  }
}

}  // namespace chorus::inline partition
