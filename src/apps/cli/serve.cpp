#include <fmt/format.h>

#include <memory>

#include "apps/cli/cli.h"
#include "apps/cli/run_report.h"
#include "apps/serving/deployment.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline cli {

void add_serve(CLI::App& app) {
  struct ServeOptions {
    std::string config, fleet = "fleet", folder;
    std::vector<std::string> overrides;
    ServeRequest request;
    bool no_admission = false;
  };
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand(
      "serve",
      "Train with the clients of a fleet, which keep their data\n\n"
      "The configuration is as for `chorus run`, without the clients' data: give data.test, and data.labels "
      "where the test data lacks some. After a kill or a stop the same command continues the run.");
  command->group(kFleets);
  command->add_option("config", options->config, "A YAML file; configs/federation.yaml is an example")->required();
  command->add_option("overrides", options->overrides, "key=value: replaces a value of the file");
  command->add_option("--fleet", options->fleet, "Folder of the fleet")->capture_default_str();
  command->add_option("--run-folder", options->folder, "The run folder (default: a new one in runs/)");
  command->add_option("--metrics", options->request.metrics, "IP:PORT for /metrics (Prometheus) and /healthz");
  command->add_flag("--new", options->request.fresh, "Begin a new run although one is unfinished");
  command->add_flag("--no-admission", options->no_admission, "Do not let invited clients join meanwhile");
  command->footer("Example:\n  chorus serve configs/federation.yaml --metrics 127.0.0.1:9464");
  command->callback([options] {
    std::vector<std::string> words{"chorus", "serve", options->config};
    words.insert(words.end(), options->overrides.begin(), options->overrides.end());
    const auto document = ConfigDocument::read(options->config, options->overrides);
    if (const std::string kind = document.kind("experiment"); kind != "experiment") {
      throw ConfigError(
          fmt::format("{}: kind: {} cannot be served; only 'kind: experiment' can", options->config, kind));
    }
    const auto config = document.load<ExperimentConfig>();
    ServeRequest request = options->request;
    request.fleet = options->fleet;
    request.admit = !options->no_admission;
    request.run = interruptible_request(words);
    request.run.folder = options->folder;
    print_report(Deployments::make("processes")->serve(config, request));
  });
}

}  // namespace chorus::inline cli
