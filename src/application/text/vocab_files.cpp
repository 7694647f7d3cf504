#include "application/text/vocab_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "application/text/json_text.h"
#include "application/text/vocabulary.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

/// Calls `each(line, number)` for every line, without its end.
template <typename F>
void for_each_line(std::string_view bytes, F each) {
  std::size_t number = 1;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    each(line, number++);
  }
}

}  // namespace

void place_token(std::vector<std::string>& tokens, std::string token, std::int64_t id, const std::string& file) {
  if (id < 0 || id >= static_cast<std::int64_t>(kMaxTokens)) {
    throw DataError(fmt::format("{}: token '{}' has the invalid id {}", file, token, id));
  }
  const auto at = static_cast<std::size_t>(id);
  if (at >= tokens.size()) tokens.resize(at + 1);
  tokens[at] = std::move(token);
}

std::vector<std::string> read_vocab_txt(std::string_view bytes, const std::string& file) {
  std::vector<std::string> tokens;
  for_each_line(bytes, [&](std::string_view line, std::size_t number) {
    if (!utf8::valid(line)) throw DataError(fmt::format("{}:{}: this token is not UTF-8", file, number));
    tokens.emplace_back(line);
  });
  if (tokens.empty()) throw DataError(fmt::format("{}: is empty; a vocabulary has one token per line", file));
  return tokens;
}

std::vector<std::string> read_vocab_json(std::string_view bytes, const std::string& file) {
  const auto json = parse_json(bytes, file);
  if (!json.is_object()) throw DataError(fmt::format("{}: expected an object of tokens and ids", file));
  std::vector<std::string> tokens;
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer()) throw DataError(fmt::format("{}: the id of token '{}' is not a number", file, token));
    place_token(tokens, token, id.get<std::int64_t>(), file);
  }
  if (tokens.empty()) throw DataError(fmt::format("{}: the vocabulary is empty", file));
  return tokens;
}

std::vector<ModelSpec::Merge> resolve_merges(const std::vector<TokenPair>& pairs,
                                             const std::vector<std::string>& tokens, const std::string& file,
                                             std::size_t line) {
  const Vocabulary vocabulary(tokens);
  const auto find = [&](const std::string& token) {
    const std::int32_t id = vocabulary.find(token);
    if (token.empty() || id == Vocabulary::kNone) {
      throw DataError(fmt::format("{}:{}: the merge names '{}', which is not in the vocabulary", file, line, token));
    }
    return id;
  };
  std::vector<ModelSpec::Merge> merges;
  merges.reserve(pairs.size());
  for (const auto& [left, right] : pairs) {
    merges.push_back({find(left), find(right), find(left + right)});
    ++line;
  }
  return merges;
}

std::vector<ModelSpec::Merge> read_merges(std::string_view bytes, const std::vector<std::string>& tokens,
                                          const std::string& file) {
  std::vector<TokenPair> pairs;
  std::size_t first = 1;
  for_each_line(bytes, [&](std::string_view line, std::size_t number) {
    if (number == 1 && line.starts_with("#version")) {
      first = 2;
      return;
    }
    const std::size_t space = line.find(' ');
    if (line.empty()) {
      throw DataError(fmt::format("{}:{}: empty line; expected a merge of two tokens", file, number));
    }
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      throw DataError(fmt::format("{}:{}: a merge is two tokens separated by a space, found '{}'", file, number, line));
    }
    pairs.emplace_back(line.substr(0, space), line.substr(space + 1));
  });
  return resolve_merges(pairs, tokens, file, first);
}

std::string write_vocab_txt(const std::vector<std::string>& tokens) {
  std::string out;
  for (const auto& token : tokens) out += token + '\n';
  return out;
}

std::string write_vocab_json(const std::vector<std::string>& tokens) {
  std::string out = "{";
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty()) continue;
    if (out.size() > 1) out += ", ";
    out += nlohmann::json(tokens[id]).dump() + ": " + std::to_string(id);
  }
  return out + "}";
}

std::string write_merges(const ModelSpec& model) {
  std::string out = "#version: 0.2\n";
  for (const auto& merge : model.merges) {
    out += model.tokens[static_cast<std::size_t>(merge.left)] + ' ' +
           model.tokens[static_cast<std::size_t>(merge.right)] + '\n';
  }
  return out;
}

}  // namespace chorus::inline text
