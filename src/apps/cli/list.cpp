#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/config/registry.h"
#include "core/console/terminal.h"
#include "core/console/text_table.h"

namespace chorus::inline cli {
namespace {

struct ListOptions {
  std::string kind;
  bool json = false;
};

void list(const ListOptions& options) {
  const RegistryIndex& index = RegistryIndex::global();
  std::vector<std::string> kinds = index.kinds();
  if (!options.kind.empty()) {
    if (index.entries(options.kind).empty()) {
      throw ConfigError(fmt::format("unknown kind '{}'{} (known: {})", shortened(options.kind, 40),
                                    did_you_mean(options.kind, kinds), fmt::join(kinds, ", ")));
    }
    kinds = {options.kind};
  }
  if (options.json) {
    nlohmann::ordered_json result = nlohmann::ordered_json::array();
    for (const std::string& kind : kinds) {
      for (const RegistryEntry* entry : index.entries(kind)) {
        nlohmann::ordered_json item = {{"kind", kind},
                                       {"name", entry->name},
                                       {"summary", entry->summary},
                                       {"available", entry->unavailable.empty()}};
        if (!entry->unavailable.empty()) item["reason"] = entry->unavailable;
        result.push_back(std::move(item));
      }
    }
    fmt::print("{}\n", result.dump(2));
    return;
  }
  TextTable table({{"kind"}, {"name"}, {"summary"}});
  std::string previous;
  for (const std::string& kind : kinds) {
    for (const RegistryEntry* entry : index.entries(kind)) {
      const std::string missing =
          entry->unavailable.empty() ? "" : fmt::format(" (not in this build: {})", entry->unavailable);
      if (!previous.empty() && previous != kind) table.add_rule();
      table.add({previous == kind ? "" : kind, entry->name, entry->summary + missing});
      previous = kind;
    }
  }
  fmt::print("{}", table.render(terminal_columns(STDOUT_FILENO, 120)));
}

}  // namespace

void add_list(CLI::App& app) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command = app.add_subcommand("list", "List every name that a configuration accepts in this build");
  command->group(kLookAround);
  command->add_option("kind", options->kind, "Only this kind, for example partitioner");
  command->add_flag("--json", options->json, "As a JSON array of {kind, name, summary, available, reason}");
  command->footer("Examples:\n  chorus list\n  chorus list partitioner --json");
  command->callback([options] { list(*options); });
}

}  // namespace chorus::inline cli
