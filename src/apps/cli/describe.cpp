#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/config/config_help.h"
#include "core/config/registry.h"
#include "core/console/terminal.h"

namespace chorus::inline cli {
namespace {

struct DescribeOptions {
  std::vector<std::string> names;
  bool json = false;
};

/// NAME or KIND/NAME.
std::vector<const RegistryEntry*> find(const std::string& name) {
  const RegistryIndex& index = RegistryIndex::global();
  std::vector<const RegistryEntry*> found = index.find_anywhere(name);
  const std::size_t slash = name.find('/');
  if (found.empty() && slash != std::string::npos) {
    if (const RegistryEntry* entry = index.find(name.substr(0, slash), name.substr(slash + 1))) return {entry};
  }
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (const std::string& kind : index.kinds()) {
    if (kind == name) {
      throw ConfigError(fmt::format("'{}' is a kind, not a name; 'chorus list {}' shows its names", name, name));
    }
    for (const RegistryEntry* entry : index.entries(kind)) names.push_back(entry->name);
  }
  throw ConfigError(fmt::format("unknown name '{}'{} ('chorus list' shows every name)", shortened(name, 60),
                                did_you_mean(name.substr(slash == std::string::npos ? 0 : slash + 1), names)));
}

void describe(const DescribeOptions& options) {
  nlohmann::ordered_json result = nlohmann::ordered_json::array();
  bool first = true;
  std::vector<const RegistryEntry*> entries;
  for (const std::string& name : options.names) {
    for (const RegistryEntry* entry : find(name)) entries.push_back(entry);
  }
  for (const RegistryEntry* entry : entries) {
    const std::unique_ptr<AnyConfig> config = entry->make_config ? entry->make_config() : nullptr;
    const auto fields = [&](ConfigVisitor& visitor) {
      if (config) config->describe(visitor);
    };
    if (options.json) {
      nlohmann::ordered_json item = {{"kind", entry->kind},
                                     {"name", entry->name},
                                     {"summary", entry->summary},
                                     {"available", entry->unavailable.empty()}};
      if (!entry->unavailable.empty()) item["reason"] = entry->unavailable;
      item["config"] = nlohmann::ordered_json::parse(config_help_json(fields));
      result.push_back(std::move(item));
      continue;
    }
    fmt::print("{}{} ({}): {}\n", first ? "" : "\n", entry->name, entry->kind, entry->summary);
    if (!entry->unavailable.empty()) fmt::print("Not in this build: {}\n", entry->unavailable);
    const std::string table = config_help_text(fields, terminal_columns(STDOUT_FILENO, 120));
    if (!table.empty()) {
      fmt::print("\n{}", table);
    } else if (entry->unavailable.empty()) {
      fmt::print("It has no settings.\n");
    }
    first = false;
  }
  if (options.json) fmt::print("{}\n", result.dump(2));
}

}  // namespace

void add_describe(CLI::App& app) {
  auto options = std::make_shared<DescribeOptions>();
  CLI::App* command = app.add_subcommand("describe", "Explain names and list every key of their configuration");
  command->group(kLookAround);
  command->add_option("name", options->names, "Names that 'chorus list' shows, or kind/name")->required();
  command->add_flag("--json", options->json, "As a JSON array of {kind, name, summary, available, config}");
  command->footer("Examples:\n  chorus describe label_dirichlet\n  chorus describe partitioner/iid --json");
  command->callback([options] { describe(*options); });
}

}  // namespace chorus::inline cli
