#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/tracking/report/page.h"
#include "infrastructure/tracking/report/page_data.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kReportExamples = R"(
The page is one file without anything from elsewhere: curves to zoom into, what a target cost,
who held what, failures, privacy, settings. Send it to anybody with a browser.

Examples:
  chorus report runs/fedavg-001
  chorus report runs/* -o comparison.html --title "FedAvg against FedOPT")";

struct ReportArguments {
  std::vector<std::filesystem::path> runs;
  std::string out = "report.html", title;
};

void write_report(const ReportArguments& arguments) {
  std::vector<std::unique_ptr<RunView>> views;
  std::vector<RunView*> runs;
  for (const auto& named : arguments.runs) {
    const auto found = find_runs({named});
    if (found.empty()) (void)read_run_info(named);  // says what is wrong with it
    if (found.empty()) throw DataError(fmt::format("{}: holds no run", named.string()));
  }
  for (const auto& folder : find_runs(arguments.runs)) {
    views.push_back(std::make_unique<RunView>(folder));
    views.back()->refresh();
    runs.push_back(views.back().get());
  }
  give_labels(runs);
  const std::string html =
      page_html(page_data(runs, {.title = arguments.title, .version = CHORUS_VERSION, .live = false}), false);
  write_file(arguments.out, html);
  fmt::print("{}: {} run{}, {:.1f} MB\n", arguments.out, runs.size(), runs.size() == 1 ? "" : "s",
             static_cast<double>(html.size()) / 1e6);
}

}  // namespace

void add_report(CLI::App& app) {
  CLI::App* command = app.add_subcommand("report", "Write a page about runs that anybody with a browser can read");
  const auto arguments = std::make_shared<ReportArguments>();
  command->group(kRuns);
  command->footer(kReportExamples);
  command->add_option("RUN", arguments->runs, "Run folders, or folders of runs such as a sweep")->required();
  command->add_option("-o,--out", arguments->out, "The page")->capture_default_str();
  command->add_option("--title", arguments->title, "Its heading (default: the run's name)");
  command->callback([arguments] { write_report(*arguments); });
}

}  // namespace chorus::inline cli
