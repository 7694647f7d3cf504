#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "apps/cli/cli.h"
#include "apps/serving/deployment.h"
#include "core/base/error.h"
#include "core/console/terminal.h"
#include "core/console/text_table.h"
#include "infrastructure/egress/egress_log.h"

namespace chorus::inline cli {
namespace {

struct EgressOptions {
  std::string identity = "identity", head;
  std::size_t last = 0;
};

EgressReport report_of(const EgressOptions& options) {
  return Deployments::make("processes")->egress(options.identity);
}

void list_egress(const EgressOptions& options) {
  const EgressReport report = report_of(options);
  TextTable table({{"time (UTC)"}, {"round"}, {"bytes"}, {"what"}});
  const std::size_t count = report.entries.size();
  for (std::size_t i = options.last > 0 && options.last < count ? count - options.last : 0; i < count; ++i) {
    const Egress& entry = report.entries[i];
    table.add({fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(entry.time)), std::to_string(entry.round),
               std::to_string(entry.bytes), entry.what});
  }
  fmt::print("{}", table.render(terminal_columns(STDOUT_FILENO, 160)));
  if (!report.broken.empty()) throw Error(ExitCode::kCheckFailed, "the log is damaged: " + report.broken);
}

void verify_egress(const EgressOptions& options) {
  if (!options.head.empty() &&
      (options.head.size() != 64 || options.head.find_first_not_of("0123456789abcdef") != std::string::npos)) {
    throw ConfigError(fmt::format("--head {} is no hash; it must be 64 hexadecimal digits", options.head));
  }
  const EgressReport report = report_of(options);
  if (!report.broken.empty()) throw Error(ExitCode::kCheckFailed, "the log is damaged: " + report.broken);
  bool found = options.head.empty();
  std::uint64_t bytes = 0;
  for (const Egress& entry : report.entries) {
    bytes += entry.bytes;
    found = found || entry.hash == options.head;
  }
  if (!found) {
    throw Error(ExitCode::kCheckFailed,
                fmt::format("no line has the hash {}: lines that were there have been removed", options.head));
  }
  fmt::print("{} entries, {} bytes, nothing was changed; the last hash is {}\n", report.entries.size(), bytes,
             report.head);
}

}  // namespace

void add_egress(CLI::App& app) {
  const auto options = std::make_shared<EgressOptions>();
  CLI::App* group = app.add_subcommand("egress", "Show everything that has left this client's machine");
  group->group(kFleets);
  group->require_subcommand(0, 1);
  CLI::App* list = group->add_subcommand("list", "One line per message that left");
  list->add_option("--last", options->last, "Only so many of the newest");
  list->callback([options] { list_egress(*options); });
  CLI::App* verify = group->add_subcommand("verify", "Check that no line was changed, removed or added in between");
  verify->add_option("--head", options->head, "A last hash that was noted earlier: it must be in the log");
  verify->callback([options] { verify_egress(*options); });
  group->callback([options, group] {
    if (!group->get_subcommands().empty()) return;
    list_egress(*options);
    verify_egress(*options);
  });
  for (CLI::App* command : {group, list, verify}) {
    command->add_option("--identity", options->identity, "Folder of the client")->capture_default_str();
  }
}

}  // namespace chorus::inline cli
