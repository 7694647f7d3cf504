#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apps/cli/cli.h"
#include "core/files/files.h"
#include "infrastructure/tracking/compare/comparison.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kCompareExamples = R"(
Unfinished runs are shown with their results so far.

Examples:
  chorus compare runs/fedavg-001 runs/fedprox-001
  chorus compare runs/* --x bytes --target 0.8
  chorus compare runs/heavy-001 --baseline runs/uniform-001 --svg curves.svg)";

struct CompareArguments {
  CompareOptions options;
  std::string svg;
  bool json = false;
};

// A folder of runs, such as a sweep, stands for all its runs.
void add_runs(const std::filesystem::path& folder, int depth, std::vector<std::filesystem::path>& runs) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(folder / "run.json", ignored)) return runs.push_back(folder);
  if (depth == 0) return;
  std::set<fs::path> below;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored)) below.insert(entry.path());
  }
  for (const fs::path& path : below) add_runs(path, depth - 1, runs);
}

void compare(const CompareArguments& arguments) {
  CompareOptions options = arguments.options;
  options.runs.clear();
  for (const auto& folder : arguments.options.runs) {
    const std::size_t before = options.runs.size();
    add_runs(folder, 2, options.runs);
    if (options.runs.size() == before) options.runs.push_back(folder);  // reported later as not a run
  }
  const Comparison comparison = compare_runs(options);
  if (!arguments.svg.empty()) write_file(arguments.svg, to_svg(comparison));
  fmt::print("{}", arguments.json ? to_json(comparison) : to_text(comparison, plot_options_for(STDOUT_FILENO)));
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compare", "Compare runs: a table and their learning curves");
  auto arguments = std::make_shared<CompareArguments>();
  CompareOptions& options = arguments->options;
  command->group(kRuns);
  command->footer(kCompareExamples);
  command->add_option("RUN", options.runs, "Run folders, or folders of runs such as a sweep; one is enough")
      ->required();
  command->add_option("--metric", options.metric, "The score (default: the runs' main score)");
  command->add_option("--x", options.x, "The x axis of the curves: round, seconds, bytes, examples or emulated")
      ->capture_default_str();
  command->add_option("--target", options.target, "Also show when each run first reached this score");
  command->add_option("--baseline", options.baseline, "Also show the relative change of every score against this run");
  command->add_option("--svg", arguments->svg, "Also write the curves to this file");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { compare(*arguments); });
}

}  // namespace chorus::inline cli
