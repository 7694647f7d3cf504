#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/cli/cli.h"
#include "apps/cli/data_options.h"
#include "apps/experiment/first_config.h"
#include "apps/experiment/run_plan.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/files/files.h"

namespace chorus::inline cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInitExamples = R"(
Looks at the data and writes a configuration with comments: what was found, and why each value is
there. Several files without a client column become one client each.

Examples:
  chorus init tickets.csv
  chorus init clinics/*.csv -o clinics.yaml
  chorus init reviews.csv --column text=review_body --column label=stars)";

struct InitArguments {
  FirstConfigInput input;
  std::vector<std::string> columns;
  std::string out;
  bool force = false, no_plan = false;
};

/// The small model that comes with Chorus: below the current folder, or where the program is installed.
std::string own_model() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& folder : {fs::path("models/chorus-mini"), program / "../models/chorus-mini",
                                 program / "../share/chorus/models/chorus-mini"}) {
    if (fs::exists(folder / "config.json", ignored)) return folder.lexically_normal().string();
  }
  throw ConfigError(
      "--model is missing, and the model that comes with Chorus was not found; name a Hugging Face folder");
}

std::string plan_comment(const std::string& path) {
  const RunPlan plan = plan_run(ConfigDocument::read(path).load<ExperimentConfig>());
  return fmt::format(
      "# chorus plan on this machine: about {:.0f} s for {} rounds, {:.1f} GB of memory, {:.1f} MB per round.\n",
      plan.seconds, plan.rounds, plan.peak_memory / 1e9, (plan.bytes_down + plan.bytes_up) / 1e6);
}

void init(InitArguments& arguments) {
  FirstConfigInput& input = arguments.input;
  for (const std::string& setting : arguments.columns) set_column(input.data.columns, setting);
  if (input.model.empty()) input.model = own_model();
  if (input.name.empty()) {
    fs::path first = fs::path(input.paths.front()).lexically_normal();
    if (!first.has_filename()) first = first.parent_path();
    if (input.paths.size() > 1 && first.has_parent_path()) first = first.parent_path();
    while (first.has_extension()) first = first.stem();
    input.name = first.filename().string();
    if (input.name.empty() || input.name == "." || input.name == "..") input.name = "experiment";
  }
  const std::string out = arguments.out.empty() ? input.name + ".yaml" : arguments.out;
  if (!arguments.force && fs::exists(out)) {
    throw ConfigError(fmt::format("{}: exists already; give another name with -o, or --force to replace it", out));
  }
  input.file = out;
  const FirstConfig config = first_config(input);
  write_file(out, config.yaml);
  for (const std::string& note : config.notes) fmt::print("{}\n", note);
  if (!arguments.no_plan) {
    const std::string comment = plan_comment(out);
    const std::size_t end = config.yaml.find('\n') + 1;
    write_file(out, config.yaml.substr(0, end) + comment + config.yaml.substr(end));
    fmt::print("{}", comment.substr(2));
  }
  fmt::print("wrote {0}\nnext: chorus run {0}\n", out);
}

}  // namespace

void add_init(CLI::App& app) {
  CLI::App* command = app.add_subcommand("init", "Look at data files and write a first configuration for them");
  const auto arguments = std::make_shared<InitArguments>();
  command->group(kRuns);
  command->footer(kInitExamples);
  command->add_option("FILES", arguments->input.paths, "Data files or folders, as for: chorus data info")->required();
  command->add_option("-o,--out", arguments->out, "The configuration (default: after the file)");
  command->add_option("--name", arguments->input.name, "Name of the experiment (default: after the file)");
  command->add_option("--model", arguments->input.model, "A Hugging Face folder (default: the small one of Chorus)");
  command->add_option("--task", arguments->input.task,
                      "What to learn (default: from the data); see 'chorus list task'");
  command
      ->add_option("--column", arguments->columns,
                   "Column of a role, for example --column text=title --column label=class")
      ->allow_extra_args(false);
  command->add_option("--format", arguments->input.data.format, "File format; see 'chorus list reader'")
      ->capture_default_str();
  command->add_flag("--force", arguments->force, "Replace an existing configuration");
  command->add_flag("--no-plan", arguments->no_plan, "Do not estimate time and memory, which takes some seconds");
  command->callback([arguments] { init(*arguments); });
}

}  // namespace chorus::inline cli
