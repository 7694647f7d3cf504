// chorus generate: writes a text for each line of standard input.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "application/models/batch.h"
#include "application/models/generation.h"
#include "application/models/pretrained.h"
#include "application/peft/adapter_folder.h"
#include "application/text/hugging_face.h"
#include "application/text/tokenizer.h"
#include "apps/cli/cli.h"
#include "apps/cli/input_lines.h"
#include "core/base/error.h"

namespace chorus::inline cli {
namespace {

struct GenerateOptions {
  std::string folder, tokenizer, device = "cpu";
  std::int64_t beams = 0, max_new_tokens = 0, batch = 16, no_repeat_ngram = -1;
  std::optional<double> length_penalty = {};
  bool early_stopping = false, json = false;
};

GenerationOptions resolve(const GenerateOptions& options, const ModelConfig& config) {
  GenerationOptions result = GenerationOptions::of(config);
  if (options.beams > 0) result.beams = options.beams;
  if (options.max_new_tokens > 0) result.max_new_tokens = options.max_new_tokens;
  if (options.length_penalty) result.length_penalty = *options.length_penalty;
  if (options.no_repeat_ngram >= 0) result.no_repeat_ngram = options.no_repeat_ngram;
  if (options.early_stopping) result.early_stopping = GenerationOptions::EarlyStopping::kYes;
  return result;
}

void generate_lines(const GenerateOptions& options) {
  const at::Device device = device_named(options.device);
  const Pretrained loaded = load_tuned(options.folder, {.device = device});
  const auto* model = dynamic_cast<const GenerativeModel*>(loaded.model.get());
  if (model == nullptr || !model->head()->generates) {
    throw ConfigError(fmt::format("{}: a {} model with a {} head cannot write text; use gpt2, bart, t5 or lstm",
                                  options.folder, loaded.model->config().model_type(), name_of(loaded.model->head())));
  }
  const std::string tokenizer_folder = options.tokenizer.empty() ? options.folder : options.tokenizer;
  const auto tokenizer = load_tokenizer(tokenizer_folder);
  check_vocabulary(*model, static_cast<std::int64_t>(tokenizer->vocabulary_size()), tokenizer_folder);
  const GenerationOptions generation = resolve(options, loaded.generation);
  const std::int64_t room = model->max_length() == 0 ? 0
                            : model->has_encoder()   ? model->max_length()
                                                     : model->max_length() - generation.max_new_tokens;
  if (model->max_length() > 0 && room < 1) {
    throw ConfigError(fmt::format("--max-new-tokens {} leaves no room for a prompt in the model's {} positions",
                                  generation.max_new_tokens, model->max_length()));
  }

  for_each_batch_of_input(options.batch, [&](const std::vector<std::string>& lines) {
    CohortRows rows(1);
    for (const std::string& line : lines) {
      const Encoding encoding = tokenizer->encode(line, {.max_length = static_cast<std::size_t>(room)});
      TokenRow row(encoding.ids.begin(), encoding.ids.end());
      if (row.empty()) row.push_back(generation.eos.value_or(0));  // an empty prompt starts from the end token
      rows[0].push_back(std::move(row));
    }
    const auto texts = generate(*model, loaded.params, collate(rows, {}, device), generation);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::size_t prefix = model->has_encoder() ? 0 : rows[0][i].size();
      const std::vector<std::int32_t> fresh(texts[i].begin() + static_cast<std::ptrdiff_t>(prefix), texts[i].end());
      const std::string text = tokenizer->decode(fresh);
      if (options.json) {
        fmt::print("{}\n", nlohmann::json{{"input", lines[i]}, {"text", text}, {"ids", texts[i]}}.dump(
                               -1, ' ', false, nlohmann::json::error_handler_t::replace));
      } else {
        fmt::print("{}\n", text);
      }
    }
  });
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand(
      "generate",
      "Write a text for each line of standard input: a continuation (gpt2, lstm) or an answer (bart, t5), greedily or "
      "by beam search, with the meanings and defaults of Hugging Face. Example: echo 'summarize: ...' | chorus "
      "generate --model DIR --beams 4");
  command->add_option("--model", options->folder, "model folder")->required();
  command->add_option("--tokenizer", options->tokenizer, "tokenizer folder, when it is not the model's");
  command->add_option("--beams", options->beams, "beams; 1 is greedy (default: the model's)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--max-new-tokens", options->max_new_tokens, "length limit (default: the model's, or 20)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--length-penalty", options->length_penalty, "exponent of the length in a beam's score");
  command->add_option("--no-repeat-ngram", options->no_repeat_ngram, "repeat no n-gram of this size; 0: off")
      ->check(CLI::Range(0, 1000));
  command->add_flag("--early-stopping", options->early_stopping, "stop at the first full set of finished beams");
  command->add_option("--batch", options->batch, "lines at a time")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--device", options->device, "cpu or cuda")->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object per line: input, text, ids");
  command->group(kModels);
  command->callback([options] { generate_lines(*options); });
}

}  // namespace chorus::inline cli
