#include "application/metrics/score.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/cli.h"
#include "apps/cli/option_checks.h"
#include "core/base/error.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kFiles = R"(
Files (plain or gzipped UTF-8; JSON lines or the format named; the first line tells which):
  classification  one label per line, or {"label": ...}; predictions may say "prediction"
  regression      one number per line, or {"score": ...}
  tagging         CoNLL columns, the tag last, blank lines between sentences, or {"tags": [...]}
  qa              references: SQuAD JSON, or {"id": ..., "answers": [...]};
                  predictions: one object {id: answer, ...}, or {"id": ..., "prediction": ...}
  generation      one text per line, or {"text": ...}; references may say "target" or "references": [...]
  lm              predictions only: one summed loss a line, in nats, then a TAB and the number of tokens
                  (1 without), or {"loss": ..., "tokens": ...}
JSON lines are paired by "id" when both files have it, otherwise by order. References may also
have "client" (--by client, --by decile) and "group" or "source" (--by group; SQuAD JSON: the title).

Examples:
  chorus score --task qa --predictions answers.json --references dev-v1.1.json
  chorus score --task tagging --predictions out.conll --references test.conll --bootstrap 1000
  chorus score --task lm --predictions losses.tsv --clients users.txt --by decile --json)";

struct ScoreArguments {
  std::string task;
  std::vector<std::string> by;
  std::string resample = "examples";
  std::string positive;
  std::size_t resamples = 0;
  BootstrapOptions bootstrap;
  bool json = false;
  ScoreOptions options;
};

void score(ScoreArguments& arguments) {
  ScoreOptions& options = arguments.options;
  options.task = score_task_named(arguments.task);
  if (!arguments.positive.empty()) options.positive = arguments.positive;
  for (const std::string& by : arguments.by) {
    options.by_client |= by == "client";
    options.by_decile |= by == "decile";
    options.by_group |= by == "group";
  }
  options.resample_clients = arguments.resample == "clients";
  if (options.resample_clients && arguments.resamples == 0)
    throw ConfigError("--resample clients needs --bootstrap (1000 is usual)");
  if (arguments.resamples > 0) {
    arguments.bootstrap.resamples = arguments.resamples;
    options.bootstrap = arguments.bootstrap;
  }
  const ScoreReport report = score_files(options);
  fmt::print("{}", arguments.json ? to_json(report) : to_text(report));
}

}  // namespace

void add_score(CLI::App& app) {
  CLI::App* command = app.add_subcommand("score", "Score predictions against references");
  auto arguments = std::make_shared<ScoreArguments>();
  ScoreOptions& options = arguments->options;
  command->group(kData);
  command->footer(kFiles);
  command->add_option("--task", arguments->task, "classification, regression, tagging, qa, generation or lm")
      ->required();
  command->add_option("--predictions", options.predictions, "Predictions of the model")->required();
  command->add_option("--references", options.references, "References (all tasks except lm)");
  command->add_option("--clients", options.clients, "Client names, one per line, in the order of the references");
  command->add_option("--by", arguments->by, "Also score each client, decile of activity or group; may be repeated")
      ->check(CLI::IsMember({"client", "decile", "group"}));
  command->add_option("--bootstrap", arguments->resamples, "Confidence intervals from this many resamples")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000000}));
  command->add_option("--confidence", arguments->bootstrap.confidence, "Confidence level of the intervals")
      ->capture_default_str();
  command->add_option("--seed", arguments->bootstrap.seed, "Seed of the resampling")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_option("--resample", arguments->resample, "Resample examples or clients")
      ->check(CLI::IsMember({"examples", "clients"}))
      ->capture_default_str();
  command->add_option("--positive", arguments->positive,
                      "classification: the class of the binary F1 (labels 0 and 1: 1)");
  command->add_flag("--strict", options.strict, "tagging: strict IOB2, an I- without its B- is not an entity");
  command->add_flag("--no-answer", options.no_answer, "qa: SQuAD v2.0 rules, an empty answer means no answer");
  command->add_flag("--allow-missing", options.allow_missing, "qa: a question without prediction scores 0");
  command->add_flag("--stem", options.stem, "generation: compare word stems");
  command
      ->add_option("--fednlp-batch", options.fednlp_batch,
                   "generation: also FedNLP's ROUGE-L, the mean of means over batches of this size")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000000}));
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { score(*arguments); });
}

}  // namespace chorus::inline cli
