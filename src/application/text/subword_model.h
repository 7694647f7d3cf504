#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "application/text/tokenizer_spec.h"

namespace chorus::inline text {

/// A token and the bytes [begin, end) of the word that it covers. Byte-fallback pieces share one range.
struct Piece {
  std::int32_t id;
  std::uint32_t begin;
  std::uint32_t end;
};

/// Tokenizes one word into pieces. Immutable and deterministic, so callers may cache the result.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  /// Appends the pieces of `word` (not empty) in order.
  virtual void cut(std::string_view word, std::vector<Piece>& pieces) const = 0;
};

/// Greedy longest match (BERT; Wu et al. 2016). A word with an uncovered part is unknown as a whole.
std::unique_ptr<SubwordModel> make_wordpiece(const ModelSpec& spec);

/// Byte-pair encoding (Sennrich et al. 2016): best-ranked merge first, leftmost among equals. `byte_level`: words are
/// raw bytes, and tokens are spelled in GPT-2's printable byte alphabet.
std::unique_ptr<SubwordModel> make_bpe(const ModelSpec& spec, bool byte_level);

/// Unigram (Kudo 2018): the segmentation with the largest total log probability, by Viterbi. Hand-written although
/// sentencepiece has it: tokenizer.json contains the model without a spiece.model, sentencepiece gives no offsets in
/// code points of the original, and training T5 must not need that library.
std::unique_ptr<SubwordModel> make_unigram(const ModelSpec& spec);

std::unique_ptr<SubwordModel> make_model(const ModelSpec& spec, bool byte_level);

/// The byte-fallback token of a byte, "<0x0A>".
std::string byte_token(unsigned char byte);

/// GPT-2's printable character for each byte, and back: 256 entries; -1 for other characters.
const std::vector<char32_t>& byte_alphabet();
int alphabet_byte(char32_t character);
/// Spelling in that alphabet -> raw bytes; other characters are unchanged.
std::string raw_bytes(std::string_view spelled);
std::string spell_bytes(std::string_view raw);

}  // namespace chorus::inline text
