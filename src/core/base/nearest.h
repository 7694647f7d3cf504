#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace chorus::inline base {

/// The number of insertions, deletions, substitutions and transpositions that turn one word into the other (optimal
/// string alignment, over bytes). Case is ignored, and '-' equals '_'.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name that `word` most likely stands for, or "" when none is close: within a third of the word's length, or one
/// contains the other. The first of equally close names.
std::string nearest(std::string_view word, std::span<const std::string> names);

/// "; did you mean 'fedprox'?" or "", to append to a message.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace chorus::inline base
