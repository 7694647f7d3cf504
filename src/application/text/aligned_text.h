#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::text {

/// A text on its way through normalisation: its present bytes, and for each byte the code points of the original that
/// it stands for. A token made of bytes [a, b) has the offsets [begin[a], end[b - 1]).
///
/// Invariants: `bytes` is valid UTF-8; the two columns are as long as `bytes`, or both empty when nobody asked for
/// offsets (`aligned` false).
struct AlignedText {
  std::string bytes;
  std::vector<std::uint32_t> begin;
  std::vector<std::uint32_t> end;
  bool aligned = true;
  bool ascii = true;

  void clear(bool with_alignment);
  /// Starts over with `text` (valid UTF-8), whose first code point is number `first`. Returns the number behind the
  /// last.
  std::uint32_t assign(std::string_view text, std::uint32_t first, bool with_alignment);
  /// Appends one character that stands for the same code points as byte `at` of `source`.
  void push(char32_t code, const AlignedText& source, std::size_t at);
  /// Appends bytes [from, to) of `source` with their alignment.
  void copy(const AlignedText& source, std::size_t from, std::size_t to);
};

/// Rewrites an AlignedText character by character with the bookkeeping of the Hugging Face library's
/// NormalizedString::transform, so that offsets agree with it even where it is odd. Each written character says how it
/// came about: `change` 0 replaces the next source character, 1 is inserted, -n replaces one and drops the n after it.
class Rewriter {
 public:
  Rewriter(const AlignedText& source, AlignedText& out);
  void put(char32_t code, int change);
  /// Adds to the change of the character written last; nothing happens when there is none.
  void amend_last(int change);
  /// Drops `count` source characters before anything is written.
  void skip(std::size_t count);
  /// Copies a run of source bytes unchanged when the source position is there; false when it is elsewhere.
  bool copy_run(std::size_t from, std::size_t to);

 private:
  void consume(std::size_t characters);

  const AlignedText& source_;
  AlignedText& out_;
  std::size_t cursor_ = 0;
  std::size_t last_ = 0;  ///< where the last written character starts
  int last_change_ = 0;
};

}  // namespace chorus::text
