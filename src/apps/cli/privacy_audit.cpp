#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/audits/audit_report.h"
#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus::inline cli {
namespace {

struct AuditCommand {
  std::string run, picture;
  std::vector<std::string> shadows;
  AuditOptions options;
  bool json = false;
};

void check_names(const std::vector<std::string>& only) {
  const std::vector<std::string> known{"canaries", "membership", "extraction", "leakage", "attribute", "activations"};
  for (const std::string& name : only) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw ConfigError(fmt::format("--only {}: there is no such audit; use {}", name, fmt::join(known, ", ")));
    }
  }
}

void audit_command(const AuditCommand& command) {
  check_names(command.options.only);
  std::filesystem::path folder = std::filesystem::absolute(command.run);
  std::vector<std::filesystem::path> others;
  for (const std::string& shadow : command.shadows) others.push_back(std::filesystem::absolute(shadow));
  const std::filesystem::path picture =
      command.picture.empty() ? std::filesystem::path() : std::filesystem::absolute(command.picture);
  std::filesystem::current_path(working_directory_of(folder));  // where the paths of its configuration start from
  const AuditedRun run(folder);
  std::vector<std::unique_ptr<AuditedRun>> shadows;
  for (const std::filesystem::path& other : others) shadows.push_back(std::make_unique<AuditedRun>(other));
  const AuditReport report = audit_run(run, shadows, command.options);
  const std::string json = to_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  write_file(folder / "audit.json", json);
  fmt::print("{}", command.json ? json : to_text(report));
  if (!picture.empty()) {
    if (!report.canaries) throw ConfigError("--picture: this run has no canaries to show");
    write_file(picture, exposure_picture(report));
  }
  if (report.contradicts()) {
    throw DataError(
        fmt::format("{}: the audit's lower bound on epsilon is above the accounted epsilon; do not trust "
                    "this run, and report it as a bug",
                    command.run));
  }
}

}  // namespace

void add_privacy_audit(CLI::App& app) {
  CLI::App* privacy = app.get_subcommand("privacy");
  const auto command = std::make_shared<AuditCommand>();
  CLI::App* sub = privacy->add_subcommand("audit", "Attack a finished run, to measure what it gives away");
  sub->add_option("run", command->run, "The run folder")->required();
  sub->add_option("--shadow", command->shadows, "Runs of the same configuration with another audit.seed (LiRA)");
  sub->add_option("--only", command->options.only,
                  "canaries, membership, extraction, leakage, attribute, activations; default: all that fit")
      ->delimiter(',');
  sub->add_option("--examples", command->options.examples, "Training and test examples for membership")
      ->capture_default_str();
  sub->add_option("--texts", command->options.texts, "Texts to reconstruct from updates")->capture_default_str();
  sub->add_option("--clients", command->options.clients, "Clients whose main class is guessed")->capture_default_str();
  sub->add_option("--confidence", command->options.confidence, "Of the lower bound on epsilon")->capture_default_str();
  sub->add_option("--picture", command->picture, "Write the exposure of canaries as an SVG file");
  sub->add_flag("--json", command->json, "As JSON (it is also in RUN/audit.json)");
  sub->footer("Example:\n  chorus run configs/demo.yaml audit={count: 64}\n  chorus privacy audit runs/demo-001");
  sub->callback([command] { audit_command(*command); });
}

}  // namespace chorus::inline cli
