#pragma once

#include <string>
#include <string_view>

#include "application/text/tokenizer_spec.h"

namespace chorus::inline text {

/// Parses a tokenizer.json; `file` is its name in error messages. Supports the components of the tokenizers of BERT,
/// DistilBERT, RoBERTa, GPT-2, BART, T5 and ALBERT:
///
///   model           WordPiece, BPE (no dropout, no sub-word prefix or suffix), Unigram
///   normalizer      BertNormalizer, Lowercase, NFD, NFKD, StripAccents, Strip, Replace (a plain string, or " {2,}"),
///                   Prepend, Precompiled, Sequence
///   pre_tokenizer   BertPreTokenizer, WhitespaceSplit, ByteLevel, Metaspace, Sequence
///   post_processor  TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence
///   decoder         WordPiece, ByteLevel, Metaspace
///
/// Anything else is a DataError that names it. Truncation and padding in the file are ignored; callers choose their
/// own.
TokenizerSpec read_tokenizer_json(std::string_view json, const std::string& file);

/// A tokenizer.json that the Hugging Face library reads as the same tokenizer.
std::string write_tokenizer_json(const TokenizerSpec& spec);

}  // namespace chorus::inline text
