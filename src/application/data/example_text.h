#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "application/data/dataset.h"

namespace chorus {

struct ExampleStyle {
  bool colour = false;     ///< ANSI colours for tags and answers, else brackets
  std::size_t width = 80;  ///< columns to wrap at
  std::size_t lines = 12;  ///< of a text, at most
};

/// One example for a person to read: its number, split, label and client, then its text. Tagged words are marked
/// [word word]TYPE, answers stand as >>answer<< in their context (cut around the first one when it is long). Safe to
/// print: control characters in the data are made visible.
std::string example_text(const Dataset& data, std::size_t index, const ExampleStyle& style = {});

/// The same as one line of JSON.
std::string example_json(const Dataset& data, std::size_t index);

/// `count` different examples of the dataset, ascending; all when there are fewer. The same seed, the same examples.
std::vector<std::size_t> sample_indices(std::size_t size, std::size_t count, std::uint64_t seed);

}  // namespace chorus
