#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace chorus {

/// How many insertions, deletions, replacements and swaps of neighbours turn one word into the other (optimal string
/// alignment, over bytes). Upper case and lower case, '-' and '_' count as the same.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name somebody who wrote `word` most likely meant, or "" when none is close: within a third of the word's length,
/// or a name that contains the word or is contained in it. Of equally near ones the first.
std::string nearest(std::string_view word, std::span<const std::string> names);

/// "; did you mean 'fedprox'?" or "": to be put behind a sentence.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace chorus
