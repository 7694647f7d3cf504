#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "apps/cli/cli.h"
#include "apps/cli/run_report.h"
#include "apps/experiment/config_inputs.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "infrastructure/tracking/failures.h"
#include "infrastructure/tracking/metrics_log.h"
#include "infrastructure/tracking/run_folder.h"
#include "infrastructure/tracking/split_costs.h"
#include "infrastructure/tracking/spread_text.h"
#include "infrastructure/tracking/transfer.h"

namespace chorus::inline cli {
namespace {

std::atomic<int> interrupts{0};
std::atomic<bool> rounds_began{false};  // the run has asked for interrupts

// How long a client's training may take to notice the second Ctrl-C. Every file is replaced atomically, so the process
// may end at any moment.
constexpr unsigned kGraceSeconds = 3;

void say(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

[[noreturn]] void leave(int) {
  say("\nstopped; chorus resume continues from the last checkpoint\n");
  ::_exit(static_cast<int>(ExitCode::kInterrupted));
}

// While data and model are read, an interrupt ends the process. Then the first one ends the run after its round, the
// second at once, if need be by force. Only async-signal-safe calls.
void count_interrupt(int) {
  const int count = ++interrupts;
  if (!rounds_began) {
    say("\nstopped before the first round\n");
    ::_exit(static_cast<int>(ExitCode::kInterrupted));
  }
  if (count == 1) return say("\nstopping after this round; Ctrl-C again stops at once\n");
  if (count > 2) leave(count);
  say("\nstopping\n");
  std::signal(SIGALRM, leave);
  ::alarm(kGraceSeconds);
}

std::string time_text(double seconds) {
  return seconds < 600 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.2f} h", seconds / 3600);
}

std::string emulated_text(const EmulatedTotals& totals) {
  return fmt::format("{}, {:.1f} MB and {:.1f} kJ per client{}", time_text(totals.seconds), totals.client_bytes / 1e6,
                     totals.client_joules / 1e3,
                     totals.memory > 0 ? fmt::format(", at most {:.2f} GB of memory", totals.memory / 1e9) : "");
}

std::string target_text(const TargetReached& target, bool emulated) {
  if (!target.reached) return "not reached";
  const Milestone& reached = *target.reached;
  std::string text = fmt::format("round {}", reached.round);
  if (emulated) text += ", " + emulated_text(reached.emulated);
  return text;
}

}  // namespace

RunRequest interruptible_request(const std::vector<std::string>& words) {
  RunRequest request;
  for (const std::string& word : words) request.command += (request.command.empty() ? "" : " ") + word;
  request.version = CHORUS_VERSION;
  request.interrupts = [] {
    rounds_began = true;
    return interrupts.load();
  };
  std::signal(SIGINT, count_interrupt);
  std::signal(SIGTERM, count_interrupt);
  return request;
}

void print_report(const RunReport& report) {
  if (report.folder.empty()) return;
  const RunSummary& summary = report.summary;
  const auto value = [&](const Scores& scores) {
    const auto found = scores.find(summary.metric);
    return found == scores.end() ? std::string("-") : fmt::format("{:.4f}", found->second);
  };
  if (summary.best.contains(summary.metric)) {
    fmt::print("{}: {} {} after round {}, best {} in round {} ({:.0f} s)\n", summary.algorithm, summary.metric,
               value(summary.last), summary.rounds, value(summary.best), summary.best_round, summary.seconds);
  } else {
    fmt::print("{}: no {} was measured until round {} ({:.0f} s)\n", summary.algorithm, summary.metric, summary.rounds,
               summary.seconds);
  }
  const RunSeconds& parts = summary.parts;
  fmt::print("time: set-up {:.1f} s, training {:.1f} s, evaluation {:.1f} s, checkpoints {:.1f} s, saving {:.1f} s\n",
             parts.setup, parts.training, parts.evaluation, parts.checkpoints, parts.saving);
  if (summary.target) {
    fmt::print("{}\n", summary.rounds_to_target ? fmt::format("the target of {} was reached in round {}",
                                                              *summary.target, *summary.rounds_to_target)
                                                : fmt::format("the target of {} was not reached", *summary.target));
  }
  if (summary.emulated) {
    fmt::print("on the emulated devices: {}\n", emulated_text(*summary.emulated));
  }
  for (const TargetReached& target : summary.targets) {
    fmt::print("  {} {}: {}\n", summary.metric, target.target, target_text(target, summary.emulated.has_value()));
  }
  for (const PhaseSummary& phase : summary.phases) {
    fmt::print("  {}: {} {} after {} rounds\n", phase.name, summary.metric, value(phase.last), phase.rounds);
  }
  if (const auto transfer = transfer_of(summary)) {
    fmt::print("{} on held-out examples of each segment:\n{}", summary.metric, transfer_text(*transfer));
  }
  if (!summary.spreads.empty()) {
    fmt::print("{} on each client's own test examples:\n{}", summary.metric, spread_text(summary.spreads));
  }
  const std::vector<Event> events = read_events(report.folder / "metrics.jsonl");
  if (const auto costs = split_costs(events)) fmt::print("{}", split_costs_text(*costs));
  if (const std::string failures = failures_text(events); !failures.empty()) fmt::print("{}\n", failures);
  if (summary.privacy) fmt::print("privacy: {}\n", summary.privacy->statement);
  const std::string folder = report.folder.string();
  const bool model = std::filesystem::exists(report.folder / "model");
  fmt::print("{}metrics and summary: {}\n", model ? "model, " : "", folder);
  if (!report.own_models.empty()) fmt::print("{}\n", report.own_models);
  fmt::print("next: chorus compare {}\n", folder);
}

namespace {

struct ResumeCommand {
  std::string folder, rounds;
};

/// run.json knows where the paths of its configuration start only if the run is below that folder.
void check_paths(const std::filesystem::path& folder) {
  if (!read_run_info(folder).directory.empty()) return;
  const auto config = ConfigDocument::read(folder / "config.yaml").load<ExperimentConfig>();
  const std::vector<std::string> missing = missing_inputs(config);
  if (missing.empty()) return;
  throw ConfigError(fmt::format(
      "{}; the run was started in another folder, where its paths start. Go there and type: chorus resume {}",
      fmt::join(missing, "; "), std::filesystem::absolute(folder).lexically_normal().string()));
}

void resume_run(const ResumeCommand& command) {
  std::vector<std::string> words{"chorus", "resume", command.folder};
  if (!command.rounds.empty()) words.push_back(command.rounds);
  RunRequest request = interruptible_request(words);
  if (!command.rounds.empty()) {
    const std::string_view text = command.rounds;
    const std::string_view number = text.starts_with("rounds=") ? text.substr(7) : "";
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), request.rounds);
    if (error != std::errc() || end != number.data() + number.size() || request.rounds < 1) {
      throw ConfigError(fmt::format(
          "'{}': only the number of rounds of a run can change: rounds=N; start a new run otherwise", command.rounds));
    }
  }
  std::filesystem::path folder = command.folder;
  const std::filesystem::path start = working_directory_of(folder);
  if (start != std::filesystem::current_path()) {
    folder = std::filesystem::absolute(folder);
    std::filesystem::current_path(start);  // where the paths of its configuration start from
  }
  check_paths(folder);
  print_report(resume_experiment(folder, request));
}

struct RunCommand {
  std::string config, folder;
  std::vector<std::string> overrides;
  bool json = false;
};

}  // namespace

void add_run(CLI::App& app) {
  const auto options = std::make_shared<RunCommand>();
  CLI::App* run = app.add_subcommand("run", "Train as a configuration file describes");
  run->group(kRuns);
  run->add_option("config", options->config, "A YAML file; configs/ has examples")->required();
  run->add_option("overrides", options->overrides, "key=value: replaces a value of the file, as trainer.epochs=2");
  run->add_option("--run-folder", options->folder, "The run folder (default: a new one in runs/)");
  run->callback([options] {
    std::vector<std::string> words{"chorus", "run", options->config};
    words.insert(words.end(), options->overrides.begin(), options->overrides.end());
    const auto document = ConfigDocument::read(options->config, options->overrides);
    if (const std::string kind = document.kind("experiment"); kind != "experiment") {
      throw ConfigError(fmt::format("{}: kind: {} cannot be run; only 'kind: experiment' can", options->config, kind));
    }
    const auto config = document.load<ExperimentConfig>();
    RunRequest request = interruptible_request(words);
    request.folder = options->folder;
    print_report(run_experiment(config, request));
  });

  const auto resumed = std::make_shared<ResumeCommand>();
  CLI::App* resume = app.add_subcommand("resume", "Continue a run that was stopped or killed, or make it longer");
  resume->group(kRuns);
  resume->add_option("run", resumed->folder, "The run folder")->required();
  resume->add_option("rounds", resumed->rounds, "rounds=N: train so many in all, more than the run was made for");
  resume->callback([resumed] { resume_run(*resumed); });
}

}  // namespace chorus::inline cli
