// chorus fill: predicts the masked tokens in each line of standard input.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "application/models/batch.h"
#include "application/models/pretrained.h"
#include "application/peft/adapter_folder.h"
#include "application/text/hugging_face.h"
#include "application/text/tokenizer.h"
#include "apps/cli/cli.h"
#include "core/base/error.h"

namespace chorus::inline cli {
namespace {

struct FillOptions {
  std::string folder, tokenizer;
  std::int64_t top = 5;
  bool json = false;
};

struct Guess {
  std::string word;
  double probability;
};

std::vector<std::vector<Guess>> guesses(const Pretrained& loaded, const Tokenizer& tokenizer, const std::string& line,
                                        std::int64_t top) {
  const std::int64_t longest = loaded.model->max_length();
  const Encoding encoding = tokenizer.encode(line, {.max_length = static_cast<std::size_t>(longest)});
  TokenRow gaps;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    if (encoding.ids[i] == *tokenizer.special().mask) gaps.push_back(static_cast<std::int64_t>(i));
  }
  if (gaps.empty()) {
    throw DataError(fmt::format("a line has no {} to fill: '{}'", tokenizer.token(*tokenizer.special().mask), line));
  }
  const at::NoGradGuard no_grad;
  Dropout off;
  Batch batch = collate({{TokenRow(encoding.ids.begin(), encoding.ids.end())}});
  batch.wanted = torch::tensor(gaps, at::kLong).unsqueeze(0);
  const at::Tensor logits = loaded.model->forward(loaded.params, batch, off).logits.squeeze(0);
  const auto [probabilities, ids] = torch::softmax(logits, -1).topk(std::min(top, logits.size(1)));
  std::vector<std::vector<Guess>> result;
  for (std::int64_t g = 0; g < ids.size(0); ++g) {
    auto& list = result.emplace_back();
    for (std::int64_t k = 0; k < ids.size(1); ++k) {
      const auto id = static_cast<std::int32_t>(ids[g][k].item<std::int64_t>());
      list.push_back({std::string(tokenizer.token(id)), probabilities[g][k].item<double>()});
    }
  }
  return result;
}

void fill_lines(const FillOptions& options) {
  const Pretrained loaded = load_tuned(options.folder, {});
  if (loaded.model->head() != Head::kMaskedLm) {
    const bool bare = loaded.model->head() == Head::kNone;
    throw ConfigError(fmt::format(
        "{}: filling gaps needs a masked language model; this one {}", options.folder,
        bare ? "is an encoder without a head" : fmt::format("has a {} head", name_of(loaded.model->head()))));
  }
  const std::string tokenizer_folder = options.tokenizer.empty() ? options.folder : options.tokenizer;
  const auto tokenizer = load_tokenizer(tokenizer_folder);
  check_vocabulary(*loaded.model, static_cast<std::int64_t>(tokenizer->vocabulary_size()), tokenizer_folder);
  if (!tokenizer->special().mask) {
    throw DataError(fmt::format("{}: the tokenizer has no mask token", tokenizer_folder));
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto filled = guesses(loaded, *tokenizer, line, options.top);
    if (options.json) {
      nlohmann::json gaps = nlohmann::json::array();
      for (const auto& list : filled) {
        nlohmann::json entry = nlohmann::json::array();
        for (const Guess& guess : list) entry.push_back({{"token", guess.word}, {"probability", guess.probability}});
        gaps.push_back(entry);
      }
      fmt::print("{}\n", nlohmann::json{{"text", line}, {"gaps", gaps}}.dump(-1, ' ', false,
                                                                             nlohmann::json::error_handler_t::replace));
      continue;
    }
    fmt::print("{}\n", line);
    for (const auto& list : filled) {
      std::string shown;
      for (const Guess& guess : list) shown += fmt::format("  {} {:.0f} %", guess.word, 100 * guess.probability);
      fmt::print("{}\n", shown);
    }
  }
}

}  // namespace

void add_fill(CLI::App& app) {
  auto options = std::make_shared<FillOptions>();
  CLI::App* command = app.add_subcommand(
      "fill",
      "Fill the gaps of each line of standard input with a masked language model. Example: echo 'She opened the [MASK] "
      "and went in.' | chorus fill --model models/chorus-mini");
  command->add_option("--model", options->folder, "model folder")->required();
  command->add_option("--tokenizer", options->tokenizer, "tokenizer folder, when it is not the model's");
  command->add_option("--top", options->top, "words per gap")->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object per line: text, gaps");
  command->group(kModels);
  command->callback([options] { fill_lines(*options); });
}

}  // namespace chorus::inline cli
