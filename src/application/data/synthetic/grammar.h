#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace chorus::inline synthetic {

/// Appends `word` to `out`, turning a preceding "a" into "an" where needed.
void append_word(std::string& out, std::string_view word);

/// Expands a pattern with slots into `out`: "the {agent} {verb} a {thing}". `fill` maps a slot's name to words. Literal
/// text is copied; articles agree with the filled words.
template <typename Fill>
void expand(std::string_view pattern, std::string& out, Fill&& fill) {
  while (!pattern.empty()) {
    const std::size_t open = pattern.find('{');
    out.append(pattern.substr(0, open));
    if (open == std::string_view::npos) return;
    const std::size_t close = pattern.find('}', open);
    append_word(out, fill(pattern.substr(open + 1, close - open - 1)));
    pattern.remove_prefix(close + 1);
  }
}

/// Capitalizes the first letter after `from` (ASCII only, as all sentences start with ASCII).
void capitalise(std::string& text, std::size_t from = 0);
/// Lower-cases ASCII letters.
void lower_case(std::string& text, std::size_t from = 0);
/// 0 .. 20 as words ("seven"), above that as digits.
std::string number_words(std::uint64_t number);

}  // namespace chorus::inline synthetic
