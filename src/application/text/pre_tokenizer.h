#pragma once

#include <cstdint>
#include <vector>

#include "application/text/aligned_text.h"
#include "application/text/tokenizer_spec.h"

namespace chorus::inline text {

/// Bytes [begin, end) of an AlignedText: a unit that a model tokenizes independently of all others.
struct WordSpan {
  std::uint32_t begin;
  std::uint32_t end;
};

/// Splits a normalized text into words: BERT's (whitespace, every punctuation mark alone), GPT-2's (the expression
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ as a hand-written scanner, because none
/// of our libraries has a fast regular expression with Unicode classes), SentencePiece's (U+2581 for spaces and before
/// the first word). May insert characters, so `text` changes. Immutable.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  /// `at_start`: the text is at the start of the original text.
  void run(AlignedText& text, AlignedText& spare, std::vector<WordSpan>& words, bool at_start) const;

  /// Whether models see raw bytes (byte-level BPE) instead of characters.
  bool byte_level() const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace chorus::inline text
