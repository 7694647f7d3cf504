#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "apps/cli/cli.h"
#include "core/files/files.h"
#include "infrastructure/tracking/compare/comparison.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kCompareExamples = R"(
Runs that are not finished are shown with what they have so far.

Examples:
  chorus compare runs/fedavg-001 runs/fedprox-001
  chorus compare runs/* --x bytes --target 0.8
  chorus compare runs/heavy-001 --baseline runs/uniform-001 --svg curves.svg)";

struct CompareArguments {
  CompareOptions options;
  std::string svg;
  bool json = false;
};

void compare(const CompareArguments& arguments) {
  const Comparison comparison = compare_runs(arguments.options);
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
  command->add_option("RUN", options.runs, "Run folders; one is enough")->required();
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
