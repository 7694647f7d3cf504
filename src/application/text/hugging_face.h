#pragma once

#include <memory>
#include <optional>
#include <string>

#include "application/text/tokenizer.h"
#include "application/text/tokenizer_spec.h"

namespace chorus::inline text {

/// Loads the tokenizer of a Hugging Face folder: tokenizer.json if present, else vocab.txt (BERT), vocab.json with
/// merges.txt (GPT-2, RoBERTa, BART) or spiece.model (T5, ALBERT), together with tokenizer_config.json,
/// special_tokens_map.json and added_tokens.json. If none names the family, config.json's model_type decides, then the
/// vocabulary itself. DataError, naming the file, for anything missing, damaged or unsupported.
///
///   auto tokenizer = load_tokenizer("models/bert-base-uncased");
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& folder);

/// Writes tokenizer.json, the vocabulary files of its kind, tokenizer_config.json and special_tokens_map.json, so that
/// transformers (AutoTokenizer) loads the same tokenizer. Creates the folder. WorldError when it cannot write.
void save_tokenizer(const Tokenizer& tokenizer, const std::string& folder);

/// Whether the folder holds a tokenizer.
bool has_tokenizer(const std::string& folder);
TokenizerSpec read_tokenizer_folder(const std::string& folder);

/// The well-known families around a model: normalizer, word splitting, special tokens. They supply what the files of a
/// folder omit; names missing in `names` take the family's defaults.
struct BertOptions {
  bool lowercase = true;
  bool tokenize_chinese_chars = true;
  std::optional<bool> strip_accents;
};
TokenizerSpec bert_spec(ModelSpec model, const BertOptions& options, SpecialNames names);
TokenizerSpec gpt2_spec(ModelSpec model, bool add_prefix_space, SpecialNames names);
TokenizerSpec roberta_spec(ModelSpec model, bool add_prefix_space, SpecialNames names);

}  // namespace chorus::inline text
