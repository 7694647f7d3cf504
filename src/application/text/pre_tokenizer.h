#pragma once

#include <cstdint>
#include <vector>

#include "application/text/aligned_text.h"
#include "application/text/tokenizer_spec.h"

namespace chorus::text {

/// Bytes [begin, end) of an AlignedText: what a model cuts into pieces, independently of all other words.
struct WordSpan {
  std::uint32_t begin;
  std::uint32_t end;
};

/// Splits a normalised text into words: BERT's (white space, every punctuation mark alone), GPT-2's (the expression
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ as a hand-written scanner: no kept
/// library has a regular expression with Unicode classes that is fast enough), SentencePiece's (U+2581 in place of
/// spaces and before the first word). May insert characters, so `text` changes. Immutable.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  /// `at_start`: the text begins where the original text begins.
  void run(AlignedText& text, AlignedText& spare, std::vector<WordSpan>& words, bool at_start) const;

  /// Do models see raw bytes (byte-level BPE), or characters?
  bool byte_level() const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace chorus::text
