#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "application/text/hugging_face.h"
#include "application/text/vocabulary_trainer.h"
#include "apps/cli/cli.h"
#include "apps/cli/option_checks.h"
#include "core/base/error.h"

namespace chorus::inline cli {

namespace {

struct TrainOptions {
  text::ModelSpec::Kind kind = text::ModelSpec::Kind::kWordPiece;
  text::TrainerOptions trainer;
  bool cased = false;
  std::string out;
  std::vector<std::string> files;
};

void train(TrainOptions options) {
  options.trainer.lowercase = !options.cased;
  text::VocabularyTrainer trainer(options.kind, options.trainer);
  for (const auto& file : options.files) {
    std::ifstream in(file, std::ios::binary);
    if (!in || std::filesystem::is_directory(file)) throw DataError(fmt::format("cannot read the text file {}", file));
    for (std::string line; std::getline(in, line);) trainer.add(line);
    if (in.bad()) throw WorldError(fmt::format("reading {} failed", file));
  }
  const Tokenizer tokenizer(trainer.train());
  save_tokenizer(tokenizer, options.out);
  fmt::print("{} tokens, written to {}\n", tokenizer.vocabulary_size(), options.out);
}

}  // namespace

void add_tokenizer(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  auto* group = app.add_subcommand("tokenizer", "Train tokenizers");
  group->group(kModels);
  group->require_subcommand(1);
  auto* command = group->add_subcommand("train", "Learn a vocabulary from text files and write a Hugging Face folder");
  command->add_option("--type", options->kind, "wordpiece (BERT) or bpe (byte-level, GPT-2)")
      ->required()
      ->transform(choice<text::ModelSpec::Kind>(
          {{"wordpiece", text::ModelSpec::Kind::kWordPiece}, {"bpe", text::ModelSpec::Kind::kBpe}}));
  command->add_option("--vocab-size", options->trainer.vocabulary_size, "Vocabulary size, including special tokens")
      ->capture_default_str();
  command->add_option("--min-frequency", options->trainer.min_frequency, "Merge a pair only if it occurs this often")
      ->capture_default_str();
  command->add_flag("--cased", options->cased, "wordpiece: keep upper case and accents");
  command->add_option("--out", options->out, "Folder to write")->required();
  command->add_option("FILES", options->files, "Text files, one text per line")->required();
  command->callback([options] { train(*options); });
}

}  // namespace chorus::inline cli
