#include "apps/experiment/first_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "application/data/dataset_summary.h"
#include "application/data/readers/guess_columns.h"
#include "application/data/readers/open_dataset.h"
#include "application/models/pretrained.h"
#include "application/text/hugging_face.h"
#include "core/base/error.h"

namespace chorus::inline experiment {
namespace {

/// Text in double quotes, as YAML and JSON both read it, or bare where it is a plain word.
std::string quoted(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '/' ||
           c == '.' || c == '-';
  });
  const bool letter = plain && ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z') ||
                                text[0] == '/' || text[0] == '.');
  static const std::vector<std::string> kWords = {"true", "false", "null", "yes", "no", "on", "off"};
  if (plain && letter && std::find(kWords.begin(), kWords.end(), text) == kWords.end()) return text;
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + quoted(item);
  return "[" + text + "]";
}

struct Reading {
  DataConfig config;
  Dataset data;
};

/// Reads the data; a file with an unknown header is read with guessed columns, several files without a client column as
/// one client each.
Reading read(const FirstConfigInput& input, std::vector<std::string>& notes) {
  DataConfig config = input.data;
  const DataConfig splits = config_of_paths(input.paths);
  config.train = splits.train;
  config.validation = splits.validation;
  config.test = splits.test;
  config.allow_new_labels = true;
  const auto open = [&]() -> Dataset {
    try {
      return open_dataset(config);
    } catch (const DataError&) {
      const bool named = !config.columns.text.empty() || !config.columns.label.empty();
      const auto guess = named || config.train.empty() ? std::nullopt : guess_columns(config.train.front());
      if (!guess) throw;
      config.columns.text = guess->text;
      config.columns.label = guess->label;
      notes.push_back(fmt::format("guessed: the text is the column '{}', the label '{}' ({} values); check that",
                                  guess->text, guess->label, guess->labels));
      if (guess->client) {
        config.columns.client = *guess->client;
        notes.push_back(fmt::format("guessed: the client is the column '{}' ({} values); check that, or remove it",
                                    *guess->client, guess->clients));
      }
      return open_dataset(config);
    }
  };
  Dataset data = open();
  if (config.train.size() > 1 && data.clients().size() == 0 && !config.client_files) {
    config.client_files = true;
    data = open_dataset(config);
    notes.push_back(
        fmt::format("{} files and no column that names a client: each file is one client", config.train.size()));
  }
  return {std::move(config), std::move(data)};
}

std::string task_of(const Dataset& data, const ModelConfig& model) {
  if (data.formulation() != Formulation::kLanguageModel) return name_of(data.formulation());
  return model.model_type() == "gpt2" ? "causal_lm" : "masked_lm";
}

/// 0: config.json does not say.
std::int64_t layers_of(const ModelConfig& model) {
  for (const char* key : {"num_hidden_layers", "n_layers", "n_layer", "encoder_layers", "num_layers"}) {
    if (model.has(key)) return model.integer(key);
  }
  return 0;
}

/// Tokens per example of up to 2,000 training examples: the share `q` of them has at most this many.
std::size_t tokens_at(const Dataset& data, const Tokenizer& tokenizer, double q) {
  std::vector<std::size_t> lengths;
  const auto train = data.split(Split::kTrain);
  const std::size_t step = std::max<std::size_t>(1, train.size() / 2000);
  for (std::size_t i = 0; i < train.size(); i += step) {
    std::vector<std::int32_t> ids;
    const Example example = data.at(train[i]);
    std::size_t length = 3;
    length += tokenizer.encode_ids(example.text, ids, false);
    length += tokenizer.encode_ids(example.second, ids, false);
    for (std::size_t w = 0; w < example.words.size(); ++w) length += tokenizer.encode_ids(example.words[w], ids, false);
    lengths.push_back(length);
  }
  if (lengths.empty()) return 0;
  std::sort(lengths.begin(), lengths.end());
  return lengths[static_cast<std::size_t>(q * static_cast<double>(lengths.size() - 1))];
}

std::string labels_text(const DatasetSummary& summary) {
  const auto& names = summary.labels.empty() ? summary.tags : summary.labels;
  std::uint64_t total = 0;
  for (const auto& name : names) total += name.counts[0];
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 8; ++i) {
    text += fmt::format(
        "{}{} {:.0f} %", i == 0 ? "" : ", ", quoted(names[i].name),
        100.0 * static_cast<double>(names[i].counts[0]) / static_cast<double>(std::max<std::uint64_t>(total, 1)));
  }
  return text + (names.size() > 8 ? fmt::format(" and {} more", names.size() - 8) : "");
}

std::string columns_text(const ColumnNames& columns) {
  std::string text;
  const std::pair<const char*, const std::string*> all[] = {
      {"id", &columns.id},         {"text", &columns.text},       {"second", &columns.second},
      {"label", &columns.label},   {"score", &columns.score},     {"words", &columns.words},
      {"tags", &columns.tags},     {"answers", &columns.answers}, {"client", &columns.client},
      {"source", &columns.source}, {"time", &columns.time}};
  for (const auto& [role, name] : all) {
    if (!name->empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", role, quoted(*name));
  }
  return text;
}

void note_imbalance(const DatasetSummary& summary, std::vector<std::string>& notes) {
  if (summary.unlabelled > 0) notes.push_back(fmt::format("{} examples have no label", summary.unlabelled));
  if (summary.labels.size() < 2) return;
  const auto by_count = [](const auto& a, const auto& b) { return a.counts[0] < b.counts[0]; };
  const auto [least, most] = std::minmax_element(summary.labels.begin(), summary.labels.end(), by_count);
  if (most->counts[0] > 10 * std::max<std::uint64_t>(least->counts[0], 1)) {
    notes.push_back(fmt::format("'{}' is {} times as frequent as '{}': look at macro_f1 beside accuracy", most->name,
                                most->counts[0] / std::max<std::uint64_t>(least->counts[0], 1), least->name));
  }
}

}  // namespace

FirstConfig first_config(const FirstConfigInput& input) {
  FirstConfig result;
  const Reading reading = read(input, result.notes);
  const DatasetSummary summary = summarise(reading.data);
  if (summary.sizes[0] == 0) throw DataError(fmt::format("{}: no training examples", fmt::join(input.paths, " ")));
  const ModelConfig model = read_generation_config(input.model);
  const auto tokenizer = load_tokenizer(input.model);
  const std::string task = input.task.empty() ? task_of(reading.data, model) : input.task;
  note_imbalance(summary, result.notes);

  const std::size_t usual = tokens_at(reading.data, *tokenizer, 0.95), longest = tokens_at(reading.data, *tokenizer, 1);
  const std::size_t max_length = std::clamp<std::size_t>((usual + 7) / 8 * 8, 16, 512);
  const bool natural = summary.clients > 1;
  const double per_client = natural ? summary.client_sizes.median : static_cast<double>(summary.sizes[0]) / 10;
  const std::int64_t batch = max_length > 256 || per_client < 32 ? 8 : 16;
  const bool small = layers_of(model) <= 4;
  const bool tested = summary.sizes[2] > 0;
  // At least 20 examples each, so that a fifth of them can be held out.
  const std::uint64_t clients = natural ? summary.clients : std::clamp<std::uint64_t>(summary.sizes[0] / 20, 2, 10);
  const std::uint64_t asked = std::clamp<std::uint64_t>((clients + 1) / 2, 1, 10);
  if (!natural && summary.clients == 1) result.notes.emplace_back("all examples have the same client");

  std::string& yaml = result.yaml;
  const auto line = [&](const std::string& text) { yaml += text + "\n"; };
  line(fmt::format("# chorus run {}", input.file.empty() ? input.name + ".yaml" : input.file));
  line(fmt::format("# Written by chorus init from {}. Every key: chorus describe experiment.",
                   input.paths.size() > 3 ? fmt::format("{} files", input.paths.size())
                                          : fmt::format("{}", fmt::join(input.paths, " "))));
  for (const std::string& note : result.notes) line("# Note: " + note + ".");
  line("kind: experiment");
  line("name: " + quoted(input.name));
  line("seed: 42");
  line("");
  line(fmt::format("# {} training, {} validation and {} test examples.", summary.sizes[0], summary.sizes[1],
                   summary.sizes[2]));
  line("data:");
  if (reading.config.format != "auto") line("  format: " + quoted(reading.config.format));
  line("  train: " + list_of(reading.config.train));
  if (!reading.config.validation.empty()) line("  validation: " + list_of(reading.config.validation));
  if (tested) line("  test: " + list_of(reading.config.test));
  if (const std::string columns = columns_text(reading.config.columns); !columns.empty()) {
    line("  columns: {" + columns + "}");
  }
  if (reading.config.client_files) line("  client_files: true   # each file is one client");
  if (const std::string labels = labels_text(summary); !labels.empty()) line("  # labels: " + labels);
  line("");
  line(fmt::format("# 95 % of the examples have at most {} tokens, the longest has {}; the rest is cut.", usual,
                   longest));
  line(fmt::format("task: {{name: {}, max_length: {}}}", task, max_length));
  line("");
  line(fmt::format("# {} layers. Any Hugging Face folder works, for example a downloaded bert-base-uncased.",
                   layers_of(model)));
  line("model: {from: " + quoted(input.model) + "}");
  line("");
  if (natural) {
    line(fmt::format("# The data names {} clients, with {:.0f} examples at the median.", summary.clients,
                     summary.client_sizes.median));
  } else {
    line("# The data names no clients, so its examples are dealt out: a smaller alpha makes clients less alike.");
  }
  line("clients:");
  line(natural                            ? "  partition: natural"
       : reading.data.labels().size() > 1 ? "  partition: {name: label_dirichlet, alpha: 1}"
                                          : "  partition: uniform");
  line(fmt::format("  count: {}", natural ? 0 : clients));
  if (!tested) line("  test_share: 0.2      # of each client's examples, held out for evaluation");
  line("");
  line("algorithm: fedavg       # chorus list algorithm");
  line("rounds: 20");
  line(fmt::format("clients_per_round: {}", asked));
  line("trainer:");
  line(fmt::format("  batch_size: {}", batch));
  line("  optimizer: adamw");
  line(fmt::format("  learning_rate: {}   # {}", small ? "5e-4" : "5e-5",
                   small ? "for a small network; 5e-5 for BERT-base" : "for a network of this size"));
  line("evaluation:");
  line("  per_client: true     # also on each client's own test examples");
  return result;
}

}  // namespace chorus::inline experiment
