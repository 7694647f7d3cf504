#pragma once

#include <cstddef>
#include <vector>

#include "application/text/encoding.h"

namespace chorus::text {

/// Tokens [begin, end) of one text that go into one window.
struct Window {
  std::size_t begin;
  std::size_t end;
};

/// The windows of each text of a pair: the first of each list is kept, the others are the overflow.
struct Windows {
  std::vector<Window> first;
  std::vector<Window> second;
};

/// Cuts texts of `first` and `second` tokens so that, with `special` added tokens, a window has at most
/// options.max_length. The same lengths and windows as the Hugging Face library's truncate_encodings. `pair` false:
/// there is no second text. Throws ConfigError when it cannot be done.
Windows cut_to_length(std::size_t first, std::size_t second, bool pair, std::size_t special,
                      const EncodeOptions& options);

}  // namespace chorus::text
