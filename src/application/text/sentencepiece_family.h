#pragma once

#include <string>
#include <string_view>

#include "application/text/tokenizer_spec.h"

namespace chorus::text {

struct SentencePieceOptions {
  bool albert = false;        ///< ALBERT's normalisation and [CLS] ... [SEP], rather than T5's </s>
  bool family_known = false;  ///< false: look at the vocabulary to tell the two apart
  bool lowercase = true;      ///< ALBERT
  bool keep_accents = false;  ///< ALBERT
  int extra_ids = 100;        ///< T5: sentinels <extra_id_0> ... behind the vocabulary
};

/// The tokenizer that transformers makes of a spiece.model. A model of another type than Unigram is a DataError.
TokenizerSpec sentencepiece_spec(std::string bytes, const std::string& file, SentencePieceOptions options,
                                 SpecialNames names);

}  // namespace chorus::text
