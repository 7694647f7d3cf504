#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "algorithm/analytics/private_counts.h"
#include "application/text/hugging_face.h"
#include "application/text/vocabulary_trainer.h"
#include "apps/cli/cli.h"
#include "apps/cli/option_checks.h"
#include "apps/experiment/experiment.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline cli {
namespace {

struct PrivateTokenizer {
  std::string config, out;
  std::vector<std::string> overrides;
  text::ModelSpec::Kind kind = text::ModelSpec::Kind::kWordPiece;
  text::TrainerOptions trainer;
  PrivateCountsConfig counts;
};

/// How a tokenizer reads texts that it was not made from.
struct Coverage {
  double words = 0, tokens = 0, unknown = 0;
};

Coverage coverage_of(const Tokenizer& tokenizer, const Experiment& experiment) {
  Coverage result;
  for (const std::uint32_t example : experiment.shared_test()) {
    const std::string_view text = experiment.data().text(example);
    bool inside = false;
    for (const char c : text) {
      const bool letter = c != ' ' && c != '\n' && c != '\t';
      result.words += letter && !inside ? 1 : 0;
      inside = letter;
    }
    std::vector<std::int32_t> ids;
    tokenizer.encode_ids(text, ids, false);
    result.tokens += static_cast<double>(ids.size());
    for (const std::int32_t id : ids) result.unknown += tokenizer.special().unk == id ? 1 : 0;
  }
  return result;
}

void print_coverage(const char* name, const Tokenizer& tokenizer, const Coverage& c) {
  fmt::print("{:<10} {:>6} tokens in the vocabulary; test texts: {:.3f} tokens per word, {:.2f} % unknown\n", name,
             tokenizer.vocabulary_size(), c.tokens / std::max(c.words, 1.0), 100 * c.unknown / std::max(c.tokens, 1.0));
}

void train_private(const PrivateTokenizer& command) {
  const Experiment experiment(ConfigDocument::read(command.config, command.overrides).load<ExperimentConfig>());
  PrivateCounts counts(command.counts);
  text::VocabularyTrainer central(command.kind, command.trainer);
  const ClientLists& clients = experiment.partition().train;
  for (std::size_t c = 0; c < clients.clients(); ++c) {
    text::VocabularyTrainer own(command.kind, command.trainer);
    for (const std::uint32_t example : clients[c]) own.add(experiment.data().text(example));
    std::map<std::string, double> words;
    for (const auto& [word, count] : own.counts()) {
      words[word] = static_cast<double>(count);
      central.add_counts(word, count);
    }
    if (!words.empty()) counts.add(words);
  }
  text::TrainerOptions noisy = command.trainer;
  noisy.min_frequency = 1;  // the threshold has left out what is rare
  text::VocabularyTrainer trainer(command.kind, noisy);
  const auto released = counts.release();
  if (released.empty()) {
    throw DataError(fmt::format(
        "no word is used by enough clients to be released (threshold {:.1f}, {} clients); use more clients or a larger "
        "epsilon",
        counts.threshold(), counts.clients()));
  }
  for (const auto& [word, weight] : released) {
    trainer.add_counts(word, static_cast<std::uint64_t>(std::llround(weight * 1000)));
  }
  const Tokenizer tokenizer(trainer.train()), reference(central.train());
  save_tokenizer(tokenizer, command.out);
  fmt::print(
      "({}, {:g})-differentially private for each of {} clients with all its texts (user level, a client added or "
      "removed; the server that adds up is trusted): {} words released, noise {:.3f}, threshold {:.2f}\n",
      command.counts.epsilon, command.counts.delta, counts.clients(), released.size(), counts.noise(),
      counts.threshold());
  print_coverage("private", tokenizer, coverage_of(tokenizer, experiment));
  print_coverage("central", reference, coverage_of(reference, experiment));
  fmt::print("written to {}\n", command.out);
}

}  // namespace

void add_tokenizer_private(CLI::App& app) {
  const auto command = std::make_shared<PrivateTokenizer>();
  CLI::App* sub = app.get_subcommand("tokenizer")
                      ->add_subcommand("private", "Learn a vocabulary from clients' texts with differential privacy");
  sub->add_option("config", command->config, "An experiment: its data and its clients")->required();
  sub->add_option("overrides", command->overrides, "key=value: replaces a value of the file");
  sub->add_option("--type", command->kind, "wordpiece (BERT) or bpe (byte-level, GPT-2)")
      ->transform(choice<text::ModelSpec::Kind>(
          {{"wordpiece", text::ModelSpec::Kind::kWordPiece}, {"bpe", text::ModelSpec::Kind::kBpe}}));
  sub->add_option("--vocab-size", command->trainer.vocabulary_size, "Vocabulary size, including special tokens")
      ->capture_default_str();
  sub->add_option("--epsilon", command->counts.epsilon, "Of each client")->capture_default_str();
  sub->add_option("--delta", command->counts.delta, "Well below 1 / clients")->capture_default_str();
  sub->add_option("--words-per-client", command->counts.most, "A client's most frequent words count")
      ->capture_default_str();
  sub->add_option("--out", command->out, "Folder to write")->required();
  sub->callback([command] { train_private(*command); });
}

}  // namespace chorus::inline cli
