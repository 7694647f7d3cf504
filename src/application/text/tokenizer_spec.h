#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// A tokenizer as data: what tokenizer.json says, whichever files it was read from. The parts run in this order: added
/// tokens are cut out, the rest is normalised, split into words, each word is cut into pieces by the model, and the
/// post-processor puts special tokens around the pieces.
namespace chorus::text {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = true;       ///< left out by decode(skip_special)
  bool normalized = false;   ///< looked for after normalisation instead of before
  bool single_word = false;  ///< only where no word character touches it
  bool lstrip = false;       ///< swallows white space on its left (RoBERTa's <mask>)
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
  bool use_regex = true;               ///< kByteLevel: split as GPT-2 does
  bool trim_offsets = true;            ///< kByteLevel: kept for writing; the post-processor does the trimming
  Prepend prepend = Prepend::kAlways;  ///< kMetaspace
  bool split = true;                   ///< kMetaspace
};

struct ModelSpec {
  enum class Kind { kWordPiece, kBpe, kUnigram };
  Kind kind = Kind::kWordPiece;
  std::vector<std::string> tokens;  ///< by id, as the file spells them; "" where no token has that id
  std::optional<std::int32_t> unknown;
  std::string continuing_prefix = "##";   ///< kWordPiece
  std::size_t max_word_characters = 100;  ///< kWordPiece: a longer word is unknown
  struct Merge {
    std::int32_t left, right, result;
  };
  std::vector<Merge> merges;   ///< kBpe, best first
  bool fuse_unknown = false;   ///< kBpe: neighbouring unknown characters become one token
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
  bool trim_offsets = false;       ///< byte-level: leave the space in front of a word out of its offsets
  bool trim_keeps_prefix = false;  ///< the first space was added by us, it has no place to be trimmed from
};

struct DecoderSpec {
  enum class Kind { kJoin, kWordPiece, kByteLevel, kMetaspace };
  Kind kind = Kind::kJoin;
  std::string prefix = "##";  ///< kWordPiece
  bool cleanup = true;        ///< kWordPiece: no space before punctuation
  bool strip_first = true;    ///< kMetaspace: drop the space that was put in front
};

/// Names of the special tokens, as tokenizer_config.json gives them; empty: there is none.
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
  std::string sentencepiece;  ///< the bytes of spiece.model, when it was read from one
};

/// The most tokens, and bytes of tokens, a vocabulary may have: a damaged file must not take all memory.
inline constexpr std::size_t kMaxTokens = std::size_t{1} << 22;

/// Throws DataError when parts refer to ids that are not there, or something needed is missing.
void check_spec(const TokenizerSpec& spec);

/// A number that changes with anything that changes an encoding.
std::uint64_t fingerprint_of(const TokenizerSpec& spec);

}  // namespace chorus::text
