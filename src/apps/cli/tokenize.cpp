#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "application/text/encoding_text.h"
#include "application/text/hugging_face.h"
#include "apps/cli/cli.h"
#include "apps/cli/option_checks.h"
#include "core/base/error.h"

namespace chorus::inline cli {

namespace {

struct TokenizeOptions {
  std::string folder;
  bool pair = false;
  bool words = false;
  bool json = false;
  bool json_input = false;
  bool decode = false;
  bool count = false;
  bool no_special = false;
  bool windows = false;
  EncodeOptions encode;
};

/// One line of input: a text, or a pair.
struct Input {
  std::string first;
  std::string second;
};

Input read_input(std::string line, std::size_t number, const TokenizeOptions& options) {
  if (options.json_input) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!options.pair && json.is_string()) return {json.get<std::string>(), {}};
    if (options.pair && json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
      return {json[0].get<std::string>(), json[1].get<std::string>()};
    }
    throw DataError(fmt::format("standard input, line {}: expected {}", number,
                                options.pair ? "a JSON array of two strings" : "a JSON string"));
  }
  if (!options.pair) return {std::move(line), {}};
  const auto tab = line.find('\t');
  if (tab == std::string::npos) {
    throw DataError(
        fmt::format("standard input, line {}: expected two texts separated by a tab, found no tab", number));
  }
  return {line.substr(0, tab), line.substr(tab + 1)};
}

Encoding encode(const Tokenizer& tokenizer, const Input& input, const TokenizeOptions& options) {
  if (options.pair) return tokenizer.encode_pair(input.first, input.second, options.encode);
  if (!options.words) return tokenizer.encode(input.first, options.encode);
  std::vector<std::string_view> words;
  const std::string_view text = input.first;
  for (std::size_t at = 0; (at = text.find_first_not_of(' ', at)) != std::string_view::npos;) {
    const auto end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return tokenizer.encode_words(words, options.encode);
}

std::string decode(const Tokenizer& tokenizer, const std::string& line, std::size_t number, bool keep_special) {
  std::istringstream in(line);
  std::vector<std::int32_t> ids;
  for (std::string word; in >> word;) {
    try {
      std::size_t used = 0;
      ids.push_back(std::stoi(word, &used));
      if (used != word.size()) throw std::invalid_argument(word);
    } catch (const std::exception&) {
      throw DataError(fmt::format("standard input, line {}: '{}' is not a token id", number, word));
    }
    if (ids.back() < 0 || static_cast<std::size_t>(ids.back()) >= tokenizer.vocabulary_size()) {
      throw DataError(fmt::format("standard input, line {}: unknown token id {}; ids go from 0 to {}", number,
                                  ids.back(), tokenizer.vocabulary_size() - 1));
    }
  }
  return tokenizer.decode(ids, !keep_special);
}

/// Encodes the whole input in memory and reports the speed.
void count(const Tokenizer& tokenizer, const std::vector<Input>& inputs, const TokenizeOptions& options) {
  using Clock = std::chrono::steady_clock;
  std::size_t bytes = 0;
  for (const auto& input : inputs) bytes += input.first.size() + input.second.size();
  std::size_t tokens = 0;
  const auto start = Clock::now();
  for (const auto& input : inputs) tokens += encode(tokenizer, input, options).size();
  const std::chrono::duration<double> whole = Clock::now() - start;
  std::vector<std::int32_t> ids;
  const auto again = Clock::now();
  for (const auto& input : inputs) {
    ids.clear();
    tokenizer.encode_ids(input.first, ids, !options.no_special);
  }
  const std::chrono::duration<double> only_ids = Clock::now() - again;
  const double megabytes = static_cast<double>(bytes) / 1e6;
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"lines", inputs.size()},
                                              {"bytes", bytes},
                                              {"tokens", tokens},
                                              {"seconds", whole.count()},
                                              {"ids_only_seconds", only_ids.count()}}
                           .dump());
    return;
  }
  fmt::print(
      "{} lines, {:.1f} MB, {} tokens\nids and offsets  {:8.3f} s  {:7.1f} MB/s\nids only         {:8.3f} s  "
      "{:7.1f} MB/s\n",
      inputs.size(), megabytes, tokens, whole.count(), megabytes / whole.count(), only_ids.count(),
      megabytes / only_ids.count());
}

void run_tokenize(TokenizeOptions options) {
  options.encode.overflow = options.windows;
  options.encode.special_tokens = !options.no_special;
  if (options.windows && options.encode.max_length == 0) {
    throw ConfigError("--stride needs --max-length, the length of its windows");
  }
  if (options.words && options.pair) throw ConfigError("--words and --pair cannot be used together");
  const auto tokenizer = load_tokenizer(options.folder);
  std::ios::sync_with_stdio(false);
  std::vector<Input> inputs;
  std::string line;
  for (std::size_t number = 1; std::getline(std::cin, line); ++number) {
    if (options.decode) {
      fmt::print("{}\n", decode(*tokenizer, line, number, options.no_special));
      continue;
    }
    Input input = read_input(std::move(line), number, options);
    if (options.count) {
      inputs.push_back(std::move(input));
      continue;
    }
    const Encoding encoding = encode(*tokenizer, input, options);
    fmt::print("{}\n", options.json ? encoding_json(*tokenizer, encoding) : encoding_line(*tokenizer, encoding));
  }
  if (options.count) count(*tokenizer, inputs, options);
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  auto* command = app.add_subcommand("tokenize", "Tokenize lines of standard input");
  command->group(kModels);
  command->add_option("--tokenizer", options->folder, "Folder with tokenizer.json, or the vocabulary files")
      ->required();
  command->add_flag("--pair", options->pair, "Each line is two texts separated by a tab");
  command->add_flag("--words", options->words, "Each line is words separated by spaces, encoded one by one (tagging)");
  command
      ->add_option("--max-length", options->encode.max_length, "Truncate to this many tokens, including special ones")
      ->check(at_least(1));
  command->add_option("--truncation", options->encode.truncation, "Which text of a pair is truncated")
      ->transform(choice<Truncation>({{"longest_first", Truncation::kLongestFirst},
                                      {"only_first", Truncation::kOnlyFirst},
                                      {"only_second", Truncation::kOnlySecond}}))
      ->default_str("longest_first");
  auto* stride = command->add_option("--stride", options->encode.stride,
                                     "Print overflowing tokens as further windows that overlap by this many tokens");
  command->add_flag("--no-special", options->no_special, "Do not add [CLS], [SEP], </s>; with --decode: show them");
  command->add_flag("--json", options->json, "One JSON object per line: ids, tokens, offsets, type_ids");
  command->add_flag("--json-input", options->json_input,
                    "Each input line is a JSON string (with --pair: two in an array)");
  command->add_flag("--decode", options->decode, "Decode lines of ids to text");
  command->add_flag("--count", options->count, "Print only the number of tokens and the speed");
  command->callback([options, stride] {
    options->windows = stride->count() > 0;
    run_tokenize(*options);
  });
}

}  // namespace chorus::inline cli
