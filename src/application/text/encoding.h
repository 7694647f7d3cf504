#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace chorus::inline text {

/// A half-open range of code points of the original text (Python's text[begin:end]).
struct TextSpan {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// Which text is truncated when a text or a pair is longer than `max_length`.
enum class Truncation {
  kLongestFirst,  ///< truncate the longer one until both fit
  kOnlyFirst,     ///< truncate the first text only; an error when that is not enough
  kOnlySecond,    ///< truncate the second text only (question answering keeps the question)
};

struct EncodeOptions {
  std::size_t max_length = 0;  ///< tokens, including special ones; 0: no limit
  Truncation truncation = Truncation::kLongestFirst;
  std::size_t stride = 0;      ///< overlap of neighbouring overflow windows, in tokens
  bool overflow = false;       ///< return truncated tokens as further windows
  bool special_tokens = true;  ///< add [CLS], [SEP], </s>, ...
};

/// An encoded text: five columns of equal length, one row per token. Token texts: Tokenizer::tokens().
struct Encoding {
  static constexpr std::int8_t kNoSequence = -1;

  std::vector<std::int32_t> ids;
  std::vector<TextSpan> offsets;       ///< (0, 0) for added special tokens; within the word for encode_words()
  std::vector<std::int32_t> type_ids;  ///< BERT's segments: 0 first text, 1 second
  std::vector<std::int8_t> sequences;  ///< 0 first text, 1 second, kNoSequence for added special tokens
  std::vector<std::int32_t> words;     ///< index of the word, -1 for special tokens; only from encode_words()
  std::vector<Encoding> overflow;      ///< further windows, in order, when requested

  std::size_t size() const { return ids.size(); }
  /// Whether the post-processor added this token.
  bool special(std::size_t i) const { return sequences[i] == kNoSequence; }
};

}  // namespace chorus::inline text
