#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Text operations with the exact meaning they have in Python, because the reference scorers are written in it. Unicode
/// tables come from utf8proc, whose Unicode version may be one newer than that of the Python at hand.
namespace chorus::python_text {

/// str.lower(): full case mapping, with U+0130 to two code points and a capital sigma that ends a word to a final one.
std::string lower(std::string_view text);

/// What str.isspace() and str.split() hold for white space.
bool is_space(char32_t code);

/// What \w of a Unicode regular expression matches: letters, numbers and the underscore.
bool is_word(char32_t code);

/// str.split(): the parts between runs of white space.
std::vector<std::string> split(std::string_view text);

}  // namespace chorus::python_text
