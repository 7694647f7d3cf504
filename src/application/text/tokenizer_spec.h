#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// A tokenizer as data: the contents of tokenizer.json, from whichever files. The parts run in this order: added tokens
/// are extracted, the rest is normalized and split into words, the model cuts each word into pieces, and the
/// post-processor adds special tokens.
namespace chorus::inline text {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = true;       ///< skipped by decode(skip_special)
  bool normalized = false;   ///< matched after normalization instead of before
  bool single_word = false;  ///< matches whole words only
  bool lstrip = false;       ///< includes whitespace on its left (RoBERTa's <mask>)
  bool rstrip = false;
};

struct NormalizerStep {
  enum class Kind {
    kBert,
    kLowercase,
    kNfd,
    kNfkd,
    kStripAccents,
    kStrip,
    kReplace,
    kSqueezeSpaces,
    kPrepend,
    kPrecompiled
  };
  Kind kind = Kind::kBert;
  bool clean_text = true;             ///< kBert
  bool handle_chinese_chars = true;   ///< kBert
  std::optional<bool> strip_accents;  ///< kBert; empty: as `lowercase`
  bool lowercase = true;              ///< kBert
  bool strip_left = true;             ///< kStrip
  bool strip_right = true;            ///< kStrip
  std::string pattern;                ///< kReplace: a plain string
  std::string content;                ///< kReplace, kSqueezeSpaces, kPrepend
  std::string charsmap;               ///< kPrecompiled: SentencePiece's compiled rules, as bytes
};

struct PreTokenizerStep {
  enum class Kind { kBert, kWhitespaceSplit, kByteLevel, kMetaspace };
  enum class Prepend { kAlways, kFirst, kNever };
  Kind kind = Kind::kBert;
  bool add_prefix_space = false;       ///< kByteLevel
  bool use_regex = true;               ///< kByteLevel: split like GPT-2
  bool trim_offsets = true;            ///< kByteLevel: kept for writing; the post-processor does the trimming
  Prepend prepend = Prepend::kAlways;  ///< kMetaspace
  bool split = true;                   ///< kMetaspace
};

struct ModelSpec {
  enum class Kind { kWordPiece, kBpe, kUnigram };
  Kind kind = Kind::kWordPiece;
  std::vector<std::string> tokens;  ///< by id; "" for an unused id
  std::optional<std::int32_t> unknown;
  std::string continuing_prefix = "##";   ///< kWordPiece
  std::size_t max_word_characters = 100;  ///< kWordPiece: a longer word is unknown
  struct Merge {
    std::int32_t left, right, result;
  };
  std::vector<Merge> merges;   ///< kBpe, best first
  bool fuse_unknown = false;   ///< kBpe: adjacent unknown characters become one token
  bool byte_fallback = false;  ///< kBpe, kUnigram: unknown characters become <0xNN> tokens
  bool ignore_merges = false;  ///< kBpe: a word that is a token stays whole
  std::vector<double> scores;  ///< kUnigram: log probabilities
};

struct TemplateItem {
  enum class Kind { kFirst, kSecond, kSpecial };
  Kind kind = Kind::kFirst;
  std::int32_t id = 0;  ///< kSpecial
  std::int32_t type_id = 0;
};

struct PostProcessorSpec {
  std::vector<TemplateItem> single{{TemplateItem::Kind::kFirst, 0, 0}};
  std::vector<TemplateItem> pair{{TemplateItem::Kind::kFirst, 0, 0}, {TemplateItem::Kind::kSecond, 0, 1}};
  bool trim_offsets = false;       ///< byte-level: exclude the leading space from offsets
  bool trim_keeps_prefix = false;  ///< the first space was added and has no position in the text
};

struct DecoderSpec {
  enum class Kind { kJoin, kWordPiece, kByteLevel, kMetaspace };
  Kind kind = Kind::kJoin;
  std::string prefix = "##";  ///< kWordPiece
  bool cleanup = true;        ///< kWordPiece: no space before punctuation
  bool strip_first = true;    ///< kMetaspace: drop the added leading space
};

/// Names of the special tokens in tokenizer_config.json; empty: none.
struct SpecialNames {
  std::string pad, unk, cls, sep, mask, bos, eos;
};

struct TokenizerSpec {
  ModelSpec model;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  PostProcessorSpec post_processor;
  DecoderSpec decoder;
  std::vector<AddedToken> added_tokens;
  SpecialNames special;
  std::size_t max_length = std::numeric_limits<std::size_t>::max();  ///< model_max_length
  std::string tokenizer_class;                                       ///< for tokenizer_config.json
  std::string sentencepiece;                                         ///< the bytes of spiece.model, if read from one
};

/// Limits of a vocabulary in tokens and bytes, so that a damaged file cannot exhaust memory.
inline constexpr std::size_t kMaxTokens = std::size_t{1} << 22;

/// DataError when parts refer to unknown ids or something required is missing.
void check_spec(const TokenizerSpec& spec);

/// A hash of everything that affects an encoding.
std::uint64_t fingerprint_of(const TokenizerSpec& spec);

}  // namespace chorus::inline text
