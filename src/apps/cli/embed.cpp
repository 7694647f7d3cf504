// chorus embed: a mean-pooled sentence vector for each line of standard input.
#include "application/models/embed.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "application/models/pretrained.h"
#include "application/peft/adapter_folder.h"
#include "application/text/hugging_face.h"
#include "application/text/tokenizer.h"
#include "apps/cli/cli.h"
#include "apps/cli/input_lines.h"
#include "core/base/error.h"

namespace chorus::inline cli {
namespace {

struct EmbedOptions {
  std::string folder, tokenizer, device = "cpu";
  std::int64_t max_length = 0, batch = 32;
  bool normalise = false, json = false;
};

void embed_lines(const EmbedOptions& options) {
  const at::Device device = device_named(options.device);
  const Pretrained loaded = load_tuned(options.folder, {.device = device});
  const std::string tokenizer_folder = options.tokenizer.empty() ? options.folder : options.tokenizer;
  const auto tokenizer = load_tokenizer(tokenizer_folder);
  check_vocabulary(*loaded.model, static_cast<std::int64_t>(tokenizer->vocabulary_size()), tokenizer_folder);
  std::int64_t longest = loaded.model->max_length();
  if (options.max_length > 0) longest = longest == 0 ? options.max_length : std::min(longest, options.max_length);

  for_each_batch_of_input(options.batch, [&](const std::vector<std::string>& lines) {
    std::vector<TokenRow> rows;
    for (const std::string& line : lines) {
      const Encoding encoding = tokenizer->encode(line, {.max_length = static_cast<std::size_t>(longest)});
      rows.emplace_back(encoding.ids.begin(), encoding.ids.end());
      if (rows.back().empty()) rows.back().push_back(tokenizer->special().eos.value_or(0));
    }
    const at::Tensor vectors = mean_embeddings(*loaded.model, loaded.params, rows, options.normalise).cpu();
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
      "embed", "Print a sentence vector for each line of standard input: the mean of the model's last hidden states");
  command->add_option("--model", options->folder, "model folder")->required();
  command->add_option("--tokenizer", options->tokenizer, "tokenizer folder, when it is not the model's");
  command->add_option("--max-length", options->max_length, "cut longer texts to so many tokens (default: the model's)")
      ->check(CLI::Range(1, 1000000));
  command->add_flag("--normalise", options->normalise, "vectors of length 1");
  command->add_option("--batch", options->batch, "lines at a time")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--device", options->device, "cpu or cuda")->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object a line: text, embedding");
  command->group(kModels);
  command->callback([options] { embed_lines(*options); });
}

}  // namespace chorus::inline cli
