#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline text {

/// A text during normalization: its current bytes, and for each byte the code points of the original that it
/// represents. A token of bytes [a, b) has the offsets [begin[a], end[b - 1]).
///
/// Invariants: `bytes` is valid UTF-8; both columns are as long as `bytes`, or empty when offsets are not needed
/// (`aligned` false).
struct AlignedText {
  std::string bytes;
  std::vector<std::uint32_t> begin;
  std::vector<std::uint32_t> end;
  bool aligned = true;
  bool ascii = true;

  void clear(bool with_alignment);
  /// Resets to `text` (valid UTF-8), whose first code point has index `first`. Returns the index after the last.
  std::uint32_t assign(std::string_view text, std::uint32_t first, bool with_alignment);
  /// Appends one character with the alignment of byte `at` of `source`.
  void push(char32_t code, const AlignedText& source, std::size_t at);
  /// Appends bytes [from, to) of `source` with their alignment.
  void copy(const AlignedText& source, std::size_t from, std::size_t to);
};

/// Rewrites an AlignedText character by character with the bookkeeping of Hugging Face's NormalizedString::transform,
/// so that offsets agree even where it is odd. Each written character has a `change`: 0 replaces the next source
/// character, 1 is inserted, -n replaces one and drops the n after it.
class Rewriter {
 public:
  Rewriter(const AlignedText& source, AlignedText& out);
  void put(char32_t code, int change);
  /// Adds to the change of the last written character, if any.
  void amend_last(int change);
  /// Drops `count` source characters before anything is written.
  void skip(std::size_t count);
  /// Copies source bytes unchanged when the source position is at `from`; false otherwise.
  bool copy_run(std::size_t from, std::size_t to);

 private:
  void consume(std::size_t characters);

  const AlignedText& source_;
  AlignedText& out_;
  std::size_t cursor_ = 0;
  std::size_t last_ = 0;  ///< start of the last written character
  int last_change_ = 0;
};

}  // namespace chorus::inline text
