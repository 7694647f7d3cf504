#include "infrastructure/tracking/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "apps/cli/cli.h"
#include "apps/cli/option_checks.h"
#include "apps/experiment/config_inputs.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/console/log.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kSweepExamples = R"(
Runs every combination of the values with every seed, each in its own folder under runs/NAME. Run the same
command again to continue a sweep that was stopped, or to add values or seeds; finished runs are kept.

Examples:
  chorus sweep config.yaml algorithm.mu=0.01,0.1,1 --seeds 3
  chorus sweep config.yaml trainer.learning_rate=0.1,0.01 rounds=5,10 --jobs 2 --name rates
  chorus sweep config.yaml 'model.freeze=[0,1],[2,3]'      lists as values, in quotes
  chorus sweep config.yaml --case 'FedAvg: algorithm=fedavg; trainer.optimizer=sgd' --case 'FedOPT: algorithm=fedopt'
                                                           settings that belong together)";

struct SweepArguments {
  SweepOptions options;
  std::vector<std::string> keys, cases;
  std::string name;
  bool json = false;
};

void show_sweep_run(const Sweep& sweep, const SweepRun& run) {
  const Log log("sweep");
  const auto ended = std::count_if(sweep.runs.begin(), sweep.runs.end(),
                                   [](const SweepRun& one) { return one.summary || !one.failure.empty(); });
  const std::string name =
      fmt::format("{} of {}: {} seed={}", ended, sweep.runs.size(), point_name(sweep.points[run.point]), run.seed);
  if (!run.summary) {
    log.error("{} failed: {}", name, run.failure);
    return;
  }
  const auto best = run.summary->best.find(run.summary->metric);
  const std::string score =
      best == run.summary->best.end() ? "" : fmt::format(": {} {:.4f}", run.summary->metric, best->second);
  log.info("{}{}{}", name, score, run.skipped ? " (finished before)" : "");
}

void sweep(SweepArguments& arguments) {
  SweepOptions& options = arguments.options;
  for (const std::string& text : arguments.keys) {
    SweepKey key = parse_sweep_key(text);
    if (key.values.size() == 1) {
      options.overrides.push_back(text);
    } else {
      options.keys.push_back(std::move(key));
    }
  }
  for (const std::string& text : arguments.cases) options.cases.push_back(parse_sweep_case(text));
  if (arguments.name.empty()) arguments.name = options.config.stem().string() + "-sweep";
  options.folder = std::filesystem::path("runs") / arguments.name;
  constexpr std::size_t kMostLookedAt = 64;  // each opens tokenizers and profiles
  options.check = [&, count = std::size_t{0}](const std::vector<std::string>& settings) mutable {
    const auto config = ConfigDocument::read(options.config.string(), settings).load<ExperimentConfig>();
    if (++count > kMostLookedAt) return;
    const std::vector<std::string> missing = missing_inputs(config);
    if (!missing.empty()) {
      throw ConfigError(fmt::format("{} {}: {}", options.config.string(), fmt::join(settings, " "), missing.front()));
    }
  };
  const Sweep result = run_sweep(options, show_sweep_run);
  fmt::print("{}", arguments.json ? to_json(result) : to_text(result));
  if (result.interrupted)
    throw Error(ExitCode::kInterrupted, "the sweep was stopped; run the same command again to continue");
  const auto failed =
      std::count_if(result.runs.begin(), result.runs.end(), [](const SweepRun& run) { return !run.failure.empty(); });
  if (failed > 0) {
    throw Error(
        ExitCode::kCheckFailed,
        fmt::format("{} of {} runs failed; fix the cause and run the same command again", failed, result.runs.size()));
  }
  if (!arguments.json)
    fmt::print("\nThe runs are in {0}; see their curves with 'chorus compare {0}'.\n", options.folder.string());
}

}  // namespace

void add_sweep(CLI::App& app) {
  CLI::App* command = app.add_subcommand("sweep", "Run a configuration over a grid of values and several seeds");
  auto arguments = std::make_shared<SweepArguments>();
  SweepOptions& options = arguments->options;
  command->group(kRuns);
  command->footer(kSweepExamples);
  command->add_option("CONFIG", options.config, "The configuration file")->required();
  command->add_option("settings", arguments->keys, "key=v1,v2,v3: swept; key=v: the same for all runs");
  command
      ->add_option("--case", arguments->cases,
                   "NAME: key=value; key=value: settings that belong together; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--seeds", options.seeds, "Seeds per combination")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}))
      ->capture_default_str();
  command->add_option("--first-seed", options.first_seed, "The first seed")->check(at_least(0))->capture_default_str();
  command->add_option("--jobs", options.jobs, "Concurrent runs, which share the processor cores")
      ->check(CLI::Range(std::size_t{1}, std::size_t{256}))
      ->capture_default_str();
  command->add_option("--name", arguments->name,
                      "Folder of the sweep under runs/ (default: the file's name and -sweep)");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { sweep(*arguments); });
}

}  // namespace chorus::inline cli
