#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace chorus::synthetic {

/// Appends `word` to `out`, turning an "a" that stands before it into "an" where English wants one.
void append_word(std::string& out, std::string_view word);

/// Writes a pattern with slots into `out`: "the {agent} {verb} a {thing}". `fill` gets the slot's name and returns its
/// words. Literal text is copied as it is; articles agree with what is filled in.
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

/// Makes the first letter after `from` a capital (ASCII only: our sentences start with ASCII).
void capitalise(std::string& text, std::size_t from = 0);
/// ASCII lower case; other code points are left as they are.
void lower_case(std::string& text, std::size_t from = 0);
/// 0 .. 20 as words ("seven"), above that as digits.
std::string number_words(std::uint64_t number);

}  // namespace chorus::synthetic
