#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/cli.h"
#include "apps/experiment/config_inputs.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/config/registry.h"
#include "core/console/terminal.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kDefaultKind = "experiment";

struct ValidateOptions {
  std::string config;
  std::vector<std::string> overrides;
  bool print = false;
};

/// "" or what to write at the top of a file that says no kind, and is a valid one of another kind.
std::string forgotten_kind(const ConfigDocument& document) {
  if (document.kind("") != "") return "";
  for (const std::string& kind : RegistryIndex::global().names("config")) {
    if (kind == kDefaultKind) continue;
    const std::unique_ptr<AnyConfig> config = RegistryIndex::global().get("config", kind).make_config();
    try {
      document.fill([&](ConfigVisitor& visitor) { config->describe(visitor); });
      return fmt::format("; it is a valid {}: write 'kind: {}' at its top", kind, kind);
    } catch (const ConfigError&) {  // NOLINT(bugprone-empty-catch): not of this kind
    }
  }
  return "";
}

void validate(const ValidateOptions& options) {
  const auto document = ConfigDocument::read(options.config, options.overrides);
  const std::string kind = document.kind(kDefaultKind);
  const std::string mistake = RegistryIndex::global().mistake("config", kind);
  if (!mistake.empty()) {
    throw ConfigError(fmt::format("{}: kind: {}; the top-level key 'kind' names what a file configures (default: '{}')",
                                  options.config, mistake, kDefaultKind));
  }
  const std::unique_ptr<AnyConfig> config = RegistryIndex::global().get("config", kind).make_config();
  const auto describe = [&](ConfigVisitor& visitor) { config->describe(visitor); };
  try {
    document.fill(describe);
  } catch (const ConfigError& error) {
    throw ConfigError(error.what() + forgotten_kind(document));
  }
  if (kind == kDefaultKind && !options.print) {
    const std::vector<std::string> missing = missing_inputs(document.load<ExperimentConfig>());
    if (!missing.empty()) throw ConfigError(fmt::format("{}: {}", options.config, fmt::join(missing, "\n  ")));
  }
  if (options.print) {
    fmt::print("{}", to_yaml(describe, kind));
  } else {
    fmt::print("{} is valid ({})\n", options.config, kind);
  }
}

}  // namespace

void add_validate(CLI::App& app) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand("validate", "Check a configuration and report all mistakes at once");
  command->group(kLookAround);
  command->add_option("config", options->config, "A YAML file")->required();
  command->add_option("overrides", options->overrides, "Replace values of the file: key.sub=value, list.0.key=value");
  command->add_flag("--print", options->print, "Print the resolved configuration, defaults and overrides included");
  command->footer(
      "Examples:\n  chorus validate configs/demo.yaml\n"
      "  chorus validate configs/demo.yaml rounds=5 'compression.up=[{name: ecq, bits: 4}]' --print");
  command->callback([options] { validate(*options); });
}

}  // namespace chorus::inline cli
