// chorus embed: a sentence vector for each line of standard input.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "application/models/pretrained.h"
#include "application/models/sentence_embedding.h"
#include "application/peft/adapter_folder.h"
#include "application/text/hugging_face.h"
#include "application/text/tokenizer.h"
#include "application/text/unicode.h"
#include "apps/cli/cli.h"
#include "apps/cli/input_lines.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline cli {
namespace {

struct EmbedOptions {
  std::string folder, tokenizer, pooling, device = "cpu";
  std::int64_t max_length = 0, batch = 32;
  bool normalise = false, json = false;
};

// The folder's settings, overridden by the command line.
SentenceEmbedding settings_for(const EmbedOptions& options) {
  SentenceEmbedding how = read_sentence_embedding(options.folder);
  if (!options.pooling.empty()) how.pooling = {pooling_named(options.pooling)};
  const bool normal = !how.steps.empty() && !how.steps.back().weight.defined();
  if (options.normalise && !normal) how.steps.emplace_back();
  if (options.max_length > 0) how.max_length = options.max_length;
  return how;
}

// The body without its head, unless an adapter needs the head it was trained with.
Pretrained load_body(const std::string& folder, at::Device device) {
  LoadOptions load{.device = device};
  if (!has_adapter(folder) && std::filesystem::exists(std::filesystem::path(folder) / "config.json")) {
    const ModelFamily family = family_of(ModelConfig::read(std::filesystem::path(folder) / "config.json"));
    if (family.has(Head::kNone)) load.head = Head::kNone;
  }
  return load_tuned(folder, load);
}

std::string lower_case(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const unicode::Lowered lowered = unicode::lower(utf8::next(text, at));
    utf8::append(result, lowered.first);
    if (lowered.second != 0) utf8::append(result, lowered.second);
  }
  return result;
}

void embed_lines(const EmbedOptions& options) {
  const at::Device device = device_named(options.device);
  const SentenceEmbedding how = settings_for(options);
  const std::string network = how.network.string();
  const Pretrained loaded = load_body(network, device);
  const std::string tokenizer_folder = !options.tokenizer.empty() ? options.tokenizer
                                       : has_tokenizer(network)   ? network
                                                                  : options.folder;
  const auto tokenizer = load_tokenizer(tokenizer_folder);
  check_vocabulary(*loaded.model, static_cast<std::int64_t>(tokenizer->vocabulary_size()), tokenizer_folder);
  std::int64_t longest = loaded.model->max_length();
  if (how.max_length > 0) longest = longest == 0 ? how.max_length : std::min(longest, how.max_length);

  for_each_batch_of_input(options.batch, [&](const std::vector<std::string>& lines) {
    std::vector<TokenRow> rows;
    for (const std::string& line : lines) {
      const std::string text = how.prompt + line;
      const Encoding encoding =
          tokenizer->encode(how.lowercase ? lower_case(text) : text, {.max_length = static_cast<std::size_t>(longest)});
      rows.emplace_back(encoding.ids.begin(), encoding.ids.end());
      if (rows.back().empty()) rows.back().push_back(tokenizer->special().eos.value_or(0));
    }
    const at::Tensor vectors = sentence_vectors(*loaded.model, loaded.params, rows, how).cpu();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const at::Tensor row = vectors[static_cast<std::int64_t>(i)].contiguous();
      const std::span<const float> values(row.data_ptr<float>(), static_cast<std::size_t>(row.numel()));
      if (options.json) {
        const std::vector<float> numbers(values.begin(), values.end());
        fmt::print("{}\n", nlohmann::json{{"text", lines[i]}, {"embedding", numbers}}.dump(
                               -1, ' ', false, nlohmann::json::error_handler_t::replace));
      } else {
        fmt::print("{:.6g}\n", fmt::join(values, " "));
      }
    }
  });
}

}  // namespace

void add_embed(CLI::App& app) {
  auto options = std::make_shared<EmbedOptions>();
  CLI::App* command = app.add_subcommand(
      "embed",
      "Print a sentence vector for each line of standard input: the mean of the model's last hidden states, or what a "
      "sentence-transformers folder says (pooling, dense layers, normalisation, maximum length, prompt)");
  command->add_option("--model", options->folder, "model folder")->required();
  command->add_option("--tokenizer", options->tokenizer, "tokenizer folder, when it is not the model's");
  command
      ->add_option("--max-length", options->max_length,
                   "truncate longer texts to this many tokens (default: the model's)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--pooling", options->pooling,
                      "cls, max, mean, mean_sqrt_len, weightedmean or lasttoken, instead of the folder's");
  command->add_flag("--normalise", options->normalise, "scale vectors to length 1");
  command->add_option("--batch", options->batch, "lines at a time")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--device", options->device, "cpu or cuda")->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object per line: text, embedding");
  command->group(kModels);
  command->callback([options] { embed_lines(*options); });
}

}  // namespace chorus::inline cli
