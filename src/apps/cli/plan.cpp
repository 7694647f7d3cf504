#include <fmt/format.h>

#include <memory>
#include <optional>

#include "apps/cli/cli.h"
#include "apps/experiment/run_plan.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kPlanHelp = R"(
Reads what the run would read, runs two short rounds in a temporary folder, and predicts memory,
bytes, real time and, with the key `emulation`, the time on the emulated devices. A run that does
not fit is refused with exit status 2 and a message that says what to change.

Examples:
  chorus plan configs/demo.yaml
  chorus plan configs/demo.yaml trainer.epochs=3 clients_per_round=8 --json
  chorus plan configs/demo.yaml algorithm=splitfed trainer.clip=0 --device-memory 0.05)";

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::optional<double> device_gigabytes;
  bool json = false;
};

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Predict memory, bytes and time of a run before it starts");
  auto arguments = std::make_shared<PlanArguments>();
  command->group(kRuns);
  command->footer(kPlanHelp);
  command->add_option("config", arguments->config, "A YAML file; configs/ has examples")->required();
  command->add_option("overrides", arguments->overrides, "key=value: settings that replace the file's");
  command
      ->add_option("--device-memory", arguments->device_gigabytes,
                   "Gigabytes of a client's device: suggests how many layers it can train in split learning")
      ->check(CLI::Range(0.000001, 1000000.0));
  command->add_flag("--json", arguments->json, "For programs");
  command->callback([arguments] {
    const auto document = ConfigDocument::read(arguments->config, arguments->overrides);
    if (const std::string kind = document.kind("experiment"); kind != "experiment") {
      throw ConfigError(
          fmt::format("{}: kind: {} cannot be planned; it should be experiment", arguments->config, kind));
    }
    PlanOptions options;
    if (arguments->device_gigabytes) options.device_memory = *arguments->device_gigabytes * 1e9;
    const RunPlan plan = plan_run(document.load<ExperimentConfig>(), options);
    fmt::print("{}", arguments->json ? to_json(plan) : to_text(plan));
  });
}

}  // namespace chorus::inline cli
