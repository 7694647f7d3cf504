#include "infrastructure/dashboard/dashboard.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "apps/cli/cli.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kDashboardHelp = R"(
The page is for this machine only (127.0.0.1). From another machine use ssh:
  ssh -L 8765:127.0.0.1:8765 HOST
The address ends with a token: who opens it can pause, continue and stop runs; without it the page
only shows them.

Examples:
  chorus dashboard
  chorus dashboard runs/my-sweep --port 9000)";

std::atomic<bool> dashboard_ends{false};

void show_dashboard(const DashboardOptions& options) {
  const Dashboard dashboard(options);
  fmt::print("{}\nCtrl-C ends it.\n", dashboard.address());
  std::fflush(stdout);
  std::signal(SIGINT, [](int) { dashboard_ends = true; });
  std::signal(SIGTERM, [](int) { dashboard_ends = true; });
  while (!dashboard_ends) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

}  // namespace

void add_dashboard(CLI::App& app) {
  CLI::App* command = app.add_subcommand("dashboard", "Show the runs of a folder in a browser, live");
  const auto options = std::make_shared<DashboardOptions>();
  options->version = CHORUS_VERSION;
  command->group(kRuns);
  command->footer(kDashboardHelp);
  command->add_option("FOLDER", options->folder, "The folder of the runs")->capture_default_str();
  command->add_option("--port", options->port, "The port; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->callback([options] { show_dashboard(*options); });
}

}  // namespace chorus::inline cli
