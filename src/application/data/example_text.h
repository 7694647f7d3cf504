#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "application/data/dataset.h"

namespace chorus::inline data {

struct ExampleStyle {
  bool colour = false;     ///< ANSI colours for tags and answers, else brackets
  std::size_t width = 80;  ///< columns to wrap at
  std::size_t lines = 12;  ///< maximum lines of a text
};

/// Formats one example: index, split, label and client, then its text. Tagged words are marked [word word]TYPE, answers
/// >>answer<< in their context (cut around the first one when long). Control characters are made visible.
std::string example_text(const Dataset& data, std::size_t index, const ExampleStyle& style = {});

/// The same as one line of JSON.
std::string example_json(const Dataset& data, std::size_t index);

/// `count` distinct indices, ascending; all when there are fewer. Determined by the seed.
std::vector<std::size_t> sample_indices(std::size_t size, std::size_t count, std::uint64_t seed);

}  // namespace chorus::inline data
