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

namespace chorus {

namespace text {
struct TokenizerSpec;
}

/// Turns text into the token ids a model was trained with, and back, exactly as the Hugging Face `tokenizers` library:
/// WordPiece (BERT, DistilBERT), byte-level BPE (GPT-2, RoBERTa, BART), Unigram (T5, ALBERT). Any bytes may come in:
/// what is not UTF-8 is read as U+FFFD. Offsets count code points of the original text.
///
///   const auto tokenizer = load_tokenizer("../shared/data/vocab/bert-base-uncased");   // hugging_face.h
///   const Encoding e = tokenizer->encode("Hello there", {.max_length = 128});
///
/// Immutable; every member may be called from any number of threads at once.
class Tokenizer {
 public:
  /// Throws DataError when the parts do not fit together.
  explicit Tokenizer(text::TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Throws ConfigError when `truncation` cannot make the pair fit, or `stride` leaves no room for progress.
  Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options = {}) const;
  /// A text that is already split into words (tagging): fills Encoding::words.
  Encoding encode_words(std::span<const std::string_view> words, const EncodeOptions& options = {}) const;
  /// Only ids, appended to `ids`: the fastest way in. Returns how many were added. With a limit, tokenizing may stop
  /// once that many tokens of the text are there (it may also go a little further): for callers who cut anyway.
  std::size_t encode_ids(std::string_view text, std::vector<std::int32_t>& ids, bool special_tokens = true,
                         std::size_t limit = 0) const;

  std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const;
  /// The text of each token as the vocabulary spells it ("##ing", "Ġthe", "▁the").
  std::vector<std::string> tokens(const Encoding& encoding) const;

  /// One more than the largest id: what an embedding must have room for.
  std::size_t vocabulary_size() const;
  /// As the vocabulary spells it; "" for an id without a token.
  std::string_view token(std::int32_t id) const;
  std::optional<std::int32_t> id(std::string_view token) const;
  /// Is this a special token ([CLS], <pad>, ...), whether added by the post-processor or written in the text?
  bool is_special(std::int32_t id) const;
  /// How many special tokens go around one text, or a pair.
  std::size_t special_count(bool pair) const;

  struct SpecialIds {
    std::optional<std::int32_t> pad, unk, cls, sep, mask, bos, eos;
  };
  const SpecialIds& special() const;
  /// The longest input of the model it belongs to (model_max_length); a very large number when not said.
  std::size_t max_length() const;
  /// A number that is equal for tokenizers that encode alike: part of the key of tokenized caches.
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

}  // namespace chorus
