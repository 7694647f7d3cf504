#pragma once

#include <memory>
#include <optional>
#include <string>

#include "application/text/tokenizer.h"
#include "application/text/tokenizer_spec.h"

namespace chorus {

/// Reads the tokenizer of a Hugging Face folder: tokenizer.json when it is there, else vocab.txt (BERT), vocab.json
/// with merges.txt (GPT-2, RoBERTa, BART) or spiece.model (T5, ALBERT), with what tokenizer_config.json,
/// special_tokens_map.json and added_tokens.json say beside it. Where nothing names the family, config.json's
/// model_type decides, then the vocabulary itself. Throws DataError, naming the file, for anything that is missing,
/// damaged or not supported.
///
///   auto tokenizer = load_tokenizer("models/bert-base-uncased");
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& folder);

/// Writes tokenizer.json, the plain vocabulary files of its kind, tokenizer_config.json and special_tokens_map.json, so
/// that transformers loads the folder (AutoTokenizer) as the same tokenizer. Makes the folder. WorldError when it
/// cannot write.
void save_tokenizer(const Tokenizer& tokenizer, const std::string& folder);

namespace text {

/// Does the folder hold a tokenizer at all?
bool has_tokenizer(const std::string& folder);
TokenizerSpec read_tokenizer_folder(const std::string& folder);

/// The well-known families, around a model: normaliser, word splitting, special tokens. What the files of a folder do
/// not say is filled in so. Names missing in `names` take the family's defaults.
struct BertOptions {
  bool lowercase = true;
  bool tokenize_chinese_chars = true;
  std::optional<bool> strip_accents;
};
TokenizerSpec bert_spec(ModelSpec model, const BertOptions& options, SpecialNames names);
TokenizerSpec gpt2_spec(ModelSpec model, bool add_prefix_space, SpecialNames names);
TokenizerSpec roberta_spec(ModelSpec model, bool add_prefix_space, SpecialNames names);

}  // namespace text
}  // namespace chorus
