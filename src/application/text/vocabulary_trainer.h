#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "application/text/normalizer.h"
#include "application/text/pre_tokenizer.h"
#include "application/text/tokenizer_spec.h"

namespace chorus::inline text {

struct TrainerOptions {
  std::size_t vocabulary_size = 8000;  ///< including special tokens and the alphabet; fewer for a small text
  std::size_t min_frequency = 2;       ///< minimum count of a merged pair
  std::size_t max_alphabet = 1000;     ///< WordPiece: number of most frequent characters to keep
  bool lowercase = true;               ///< WordPiece
};

/// Learns a vocabulary by byte-pair merging (Sennrich et al. 2016): counts the words, then repeatedly merges the most
/// frequent pair of neighbours; ties are broken by spelling, so that the result depends on the counts alone, not on the
/// order of the text. WordPiece vocabularies are learnt the same way, with "##" before pieces inside a word, as in the
/// Hugging Face library.
///
///   VocabularyTrainer trainer(ModelSpec::Kind::kWordPiece, options);
///   for (line of corpus) trainer.add(line);
///   TokenizerSpec spec = trainer.train();          // save_tokenizer(Tokenizer(spec), folder)
class VocabularyTrainer {
 public:
  /// `kind`: kWordPiece (a BERT tokenizer) or kBpe (byte-level, a GPT-2 tokenizer). ConfigError when the options
  /// leave no room for the alphabet and special tokens.
  VocabularyTrainer(ModelSpec::Kind kind, const TrainerOptions& options);

  /// Counts the words of a text.
  void add(std::string_view text);
  /// Words counted elsewhere, spelled as in `counts` of another trainer with the same options.
  void add_counts(const std::string& word, std::uint64_t count) { counts_[word] += count; }
  /// The words of all texts so far.
  const std::unordered_map<std::string, std::uint64_t>& counts() const { return counts_; }
  /// The tokenizer. DataError when no word was added.
  TokenizerSpec train() const;

 private:
  TokenizerSpec finish(ModelSpec model) const;

  ModelSpec::Kind kind_;
  TrainerOptions options_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unordered_map<std::string, std::uint64_t> counts_;
};

}  // namespace chorus::inline text
