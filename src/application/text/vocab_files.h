#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "application/text/tokenizer_spec.h"

/// Vocabulary files of a Hugging Face folder. Every function takes the file's bytes, and its name for messages.
namespace chorus::inline text {

/// vocab.txt: one token per line, in id order. Trailing carriage returns are ignored.
std::vector<std::string> read_vocab_txt(std::string_view bytes, const std::string& file);

/// vocab.json: {"token": id, ...}.
std::vector<std::string> read_vocab_json(std::string_view bytes, const std::string& file);

/// merges.txt: an optional line "#version: ...", then one "left right" per line, best first.
std::vector<ModelSpec::Merge> read_merges(std::string_view bytes, const std::vector<std::string>& tokens,
                                          const std::string& file);

using TokenPair = std::pair<std::string, std::string>;
/// Converts token pairs to ids; DataError for an unknown token. `line` is the line of the first pair.
std::vector<ModelSpec::Merge> resolve_merges(const std::vector<TokenPair>& pairs,
                                             const std::vector<std::string>& tokens, const std::string& file,
                                             std::size_t line);

/// Sets `token` at `id`, growing the list; DataError for an invalid id.
void place_token(std::vector<std::string>& tokens, std::string token, std::int64_t id, const std::string& file);

std::string write_vocab_txt(const std::vector<std::string>& tokens);
std::string write_vocab_json(const std::vector<std::string>& tokens);
std::string write_merges(const ModelSpec& model);

}  // namespace chorus::inline text
