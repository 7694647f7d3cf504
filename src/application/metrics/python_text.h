#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Text operations with Python's exact semantics, because the reference scorers are written in Python. Unicode tables
/// come from utf8proc, whose Unicode version may be newer than Python's.
namespace chorus::python_text {

/// str.lower(): full case mapping, with U+0130 to two code points and a capital sigma that ends a word to a final one.
std::string lower(std::string_view text);

/// Whitespace according to str.isspace() and str.split().
bool is_space(char32_t code);

/// What \w of a Unicode regular expression matches: letters, numbers and the underscore.
bool is_word(char32_t code);

/// str.split(): splits at runs of whitespace.
std::vector<std::string> split(std::string_view text);

}  // namespace chorus::python_text
