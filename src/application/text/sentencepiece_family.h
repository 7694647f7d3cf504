#pragma once

#include <string>
#include <string_view>

#include "application/text/tokenizer_spec.h"

namespace chorus::inline text {

struct SentencePieceOptions {
  bool albert = false;        ///< ALBERT's normalization and [CLS] ... [SEP] instead of T5's </s>
  bool family_known = false;  ///< false: decide from the vocabulary
  bool lowercase = true;      ///< ALBERT
  bool keep_accents = false;  ///< ALBERT
  int extra_ids = 100;        ///< T5: sentinels <extra_id_0> ... after the vocabulary
};

/// The tokenizer that transformers builds from a spiece.model. DataError unless it is a Unigram model.
TokenizerSpec sentencepiece_spec(std::string bytes, const std::string& file, SentencePieceOptions options,
                                 SpecialNames names);

}  // namespace chorus::inline text
