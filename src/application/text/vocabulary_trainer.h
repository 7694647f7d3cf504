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

namespace chorus::text {

struct TrainerOptions {
  std::size_t vocabulary_size = 8000;  ///< tokens, special ones and the alphabet included; fewer when the text is small
  std::size_t min_frequency = 2;       ///< a pair seen less often is not merged
  std::size_t max_alphabet = 1000;     ///< WordPiece: keep the most frequent characters only
  bool lowercase = true;               ///< WordPiece
};

/// Learns a vocabulary from a corpus by byte-pair merging (Sennrich et al. 2016): count the words, then join the most
/// frequent pair of neighbours again and again; among equally frequent pairs the one whose spelling comes first, so
/// that the result depends on the counts alone, not on the order of the text. WordPiece vocabularies are learnt the
/// same way, with "##" before the pieces inside a word, as the Hugging Face library does.
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

}  // namespace chorus::text
