#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "application/data/synthetic/record_json.h"
#include "application/data/synthetic/synthetic.h"
#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline cli {
namespace {

struct CorpusOptions {
  SyntheticConfig config;
  std::string formulation;
  std::string split = "train";
  std::string out;
};

constexpr std::string_view kClientMark = "{client}";

/// One file per client of the corpus, named by its name.
void make_client_files(const CorpusOptions& options, const SyntheticConfig& config, const SyntheticCorpus& corpus,
                       Split split) {
  std::map<std::string, std::string> lines;
  Record record;
  for (std::uint64_t i = 0; i < config.examples; ++i) {
    corpus.make(split, i, record);
    std::string& own = lines[record.client];
    record.client.clear();
    append_json_line(record, config.formulation, own);
  }
  for (const auto& [client, text] : lines) {
    std::string path = options.out;
    path.replace(path.find(kClientMark), kClientMark.size(), client);
    if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty()) {
      std::filesystem::create_directories(folder);
    }
    write_file(path, text);
    fmt::print("{}: {} {} examples ({}), seed {}\n", path, std::count(text.begin(), text.end(), '\n'),
               options.formulation, options.split, config.seed);
  }
}

void make(const CorpusOptions& options) {
  SyntheticConfig config = options.config;
  config.formulation = formulation_named(options.formulation);
  Split split = Split::kTrain;
  for (const Split candidate : {Split::kValidation, Split::kTest}) {
    if (options.split == name_of(candidate)) split = candidate;
  }
  const SyntheticCorpus corpus(config);
  if (options.out.find(kClientMark) != std::string::npos) {
    make_client_files(options, config, corpus, split);
    return;
  }
  // Write to stdout directly: reopening /dev/stdout would truncate a file behind it.
  std::optional<AtomicFile> file;
  if (options.out != "-") file.emplace(options.out);
  const auto write = [&](std::string_view lines) {
    if (file) {
      file->write(lines);
    } else if (std::fwrite(lines.data(), 1, lines.size(), stdout) != lines.size() || std::fflush(stdout) != 0) {
      throw WorldError("standard output cannot be written to");
    }
  };
  Record record;
  std::string lines;
  for (std::uint64_t i = 0; i < config.examples; ++i) {
    corpus.make(split, i, record);
    append_json_line(record, config.formulation, lines);
    if (lines.size() > 1 << 20) {
      write(lines);
      lines.clear();
    }
  }
  write(lines);
  if (file) file->commit();
  if (options.out != "-") {
    fmt::print("{}: {} {} examples ({}), seed {}\n", options.out, config.examples, options.formulation, options.split,
               config.seed);
  }
}

}  // namespace

void add_data_make(CLI::App& app) {
  const auto found = app.get_subcommands([](const CLI::App* sub) { return sub->get_name() == "data"; });
  CLI::App* data = found.empty() ? nullptr : found.front();
  if (data == nullptr) {
    data = app.add_subcommand("data", "Inspect, generate and tokenize datasets");
    data->group(kData);
    data->require_subcommand(1);
  }
  auto options = std::make_shared<CorpusOptions>();
  SyntheticConfig& config = options->config;
  CLI::App* command = data->add_subcommand(
      "make",
      "Generate an English-like corpus from a seed, as JSONL\n\n"
      "  chorus data make --formulation seq2seq --examples 1000 --seed 7 --out train.jsonl\n"
      "  chorus data make --formulation seq2seq --examples 200 --seed 7 --split test --out test.jsonl\n\n"
      "Example i does not depend on --examples. Texts have a client, a source and a time, for natural partitions.");
  command
      ->add_option(
          "--formulation,-f", options->formulation,
          "text_classification, pair_classification, pair_regression, seq_tagging, span_extraction, seq2seq or "
          "language_model")
      ->required();
  command
      ->add_option("--out,-o", options->out,
                   "The file to write; - for standard output; {client} in its name: one file per client")
      ->required();
  command->add_option("--examples,-n", config.examples, "Number of examples")->capture_default_str();
  command->add_option("--seed,-s", config.seed, "Seed of the corpus")->capture_default_str();
  command->add_option("--split", options->split, "train, validation or test: other examples of the same corpus")
      ->check(CLI::IsMember({"train", "validation", "test"}))
      ->capture_default_str();
  command->add_option("--labels", config.labels,
                      "Classes: 2-24 topics, 2-3 pair labels, 1-5 entity types; 0: 20, 3 or 5");
  command->add_option("--clients", config.clients, "Number of clients, up to 10,000,000")->capture_default_str();
  command->add_option("--sources", config.sources, "Number of sources (silos), 1-10")->capture_default_str();
  command->add_option("--activity", config.activity, "0-4: sigma of the clients' log-normal activity")
      ->capture_default_str();
  command->add_option("--skew", config.skew, "0-1: how much clients and sources differ")->capture_default_str();
  command->add_option("--overlap", config.overlap, "0-0.95: how similar classes are; higher is harder")
      ->capture_default_str();
  command->add_option("--label-noise", config.label_noise, "0-0.5: share of wrong labels")->capture_default_str();
  command->add_option("--typos", config.typos, "0-1: rate of typing errors")->capture_default_str();
  command->add_option("--drift", config.drift, "0-1: drift over the twelve months")->capture_default_str();
  command->callback([options] { make(*options); });
}

}  // namespace chorus::inline cli
