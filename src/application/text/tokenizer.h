#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "application/text/encoding.h"

namespace chorus::inline text {

struct TokenizerSpec;

/// Converts text to the token ids of a model and back, exactly as the Hugging Face `tokenizers` library: WordPiece
/// (BERT, DistilBERT), byte-level BPE (GPT-2, RoBERTa, BART), Unigram (T5, ALBERT). Accepts any bytes: invalid UTF-8 is
/// read as U+FFFD. Offsets count code points of the original text.
///
///   const auto tokenizer = load_tokenizer("../shared/data/vocab/bert-base-uncased");   // hugging_face.h
///   const Encoding e = tokenizer->encode("Hello there", {.max_length = 128});
///
/// Immutable and thread-safe.
class Tokenizer {
 public:
  /// DataError when the parts are inconsistent.
  explicit Tokenizer(text::TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// ConfigError when `truncation` cannot make the pair fit, or `stride` is too large.
  Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options = {}) const;
  /// Encodes a text that is already split into words (tagging); fills Encoding::words.
  Encoding encode_words(std::span<const std::string_view> words, const EncodeOptions& options = {}) const;
  /// Appends only ids to `ids`, which is the fastest call, and returns their number. With a limit, tokenizing may stop
  /// once about that many tokens exist, for callers that truncate anyway.
  std::size_t encode_ids(std::string_view text, std::vector<std::int32_t>& ids, bool special_tokens = true,
                         std::size_t limit = 0) const;

  std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const;
  /// Each token as spelled in the vocabulary ("##ing", "Ġthe", "▁the").
  std::vector<std::string> tokens(const Encoding& encoding) const;

  /// The largest id plus one: the size of an embedding table.
  std::size_t vocabulary_size() const;
  /// As spelled in the vocabulary; "" for an id without a token.
  std::string_view token(std::int32_t id) const;
  std::optional<std::int32_t> id(std::string_view token) const;
  /// Whether the id is a special token ([CLS], <pad>, ...), added by the post-processor or found in the text.
  bool is_special(std::int32_t id) const;
  /// The number of special tokens around one text, or a pair.
  std::size_t special_count(bool pair) const;

  struct SpecialIds {
    std::optional<std::int32_t> pad, unk, cls, sep, mask, bos, eos;
  };
  const SpecialIds& special() const;
  /// The longest input of the model (model_max_length); a very large number when unknown.
  std::size_t max_length() const;
  /// A hash that is equal for tokenizers that encode alike: part of cache keys.
  std::uint64_t fingerprint() const;
  const text::TokenizerSpec& spec() const;

 private:
  struct Parts;
  struct Scratch;
  class Borrowed;
  struct Columns;
  void encode_plain(std::string_view text, Scratch& scratch, Columns& out) const;
  void encode_segment(Scratch& scratch, Columns& out, bool at_start) const;
  void cut_words(Scratch& scratch, Columns& out) const;
  void add_match(std::int32_t id, std::string_view surface, TextSpan span, Columns& out) const;
  void trim_offsets(Columns& columns) const;
  Encoding assemble(const Columns& first, const Columns* second, const EncodeOptions& options) const;

  std::unique_ptr<Parts> parts_;
};

}  // namespace chorus::inline text
