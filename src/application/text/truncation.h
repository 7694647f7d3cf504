#pragma once

#include <cstddef>
#include <vector>

#include "application/text/encoding.h"

namespace chorus::inline text {

/// Tokens [begin, end) of one text that go into one window.
struct Window {
  std::size_t begin;
  std::size_t end;
};

/// The windows of each text of a pair: the first is kept, the others are the overflow.
struct Windows {
  std::vector<Window> first;
  std::vector<Window> second;
};

/// Truncates texts of `first` and `second` tokens so that a window, with `special` added tokens, has at most
/// options.max_length. Same lengths and windows as Hugging Face's truncate_encodings. `pair` false: there is no second
/// text. ConfigError when impossible.
Windows cut_to_length(std::size_t first, std::size_t second, bool pair, std::size_t special,
                      const EncodeOptions& options);

}  // namespace chorus::inline text
