#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "application/text/tokenizer_spec.h"

namespace chorus::text {

/// A token, and the bytes [begin, end) of the word it stands for. Pieces of byte fallback share one range.
struct Piece {
  std::int32_t id;
  std::uint32_t begin;
  std::uint32_t end;
};

/// Cuts one word into pieces. Immutable; the same word always gives the same pieces, so callers may remember them.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  /// Appends the pieces of `word` (not empty) in order.
  virtual void cut(std::string_view word, std::vector<Piece>& pieces) const = 0;
};

/// Greedy longest match first (BERT; Wu et al. 2016). A word with a part that no token covers is unknown as a whole.
std::unique_ptr<SubwordModel> make_wordpiece(const ModelSpec& spec);

/// Byte-pair encoding (Sennrich et al. 2016): the best-ranked merge of neighbours first, leftmost among equals.
/// `byte_level`: words are raw bytes, and tokens are spelled in GPT-2's printable alphabet for bytes.
std::unique_ptr<SubwordModel> make_bpe(const ModelSpec& spec, bool byte_level);

/// Unigram (Kudo 2018): the segmentation of largest total log probability, by Viterbi. Written by hand although
/// sentencepiece has it: tokenizer.json carries the same model without a spiece.model, sentencepiece gives no offsets
/// in code points of the original, and machines without that library must train T5 too.
std::unique_ptr<SubwordModel> make_unigram(const ModelSpec& spec);

std::unique_ptr<SubwordModel> make_model(const ModelSpec& spec, bool byte_level);

/// The token of byte fallback for a byte, "<0x0A>".
std::string byte_token(unsigned char byte);

/// GPT-2's printable character for each byte, and back: 256 entries; -1 for a character that stands for no byte.
const std::vector<char32_t>& byte_alphabet();
int alphabet_byte(char32_t character);
/// Spelling in that alphabet -> raw bytes; a character outside it is kept as it is.
std::string raw_bytes(std::string_view spelled);
std::string spell_bytes(std::string_view raw);

}  // namespace chorus::text
