#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "application/data/dataset_summary.h"
#include "application/data/example_text.h"
#include "apps/cli/cli.h"
#include "apps/cli/data_options.h"
#include "core/console/terminal.h"

namespace chorus::inline cli {
namespace {

void info(const DataOptions& options) {
  const DatasetSummary summary = summarise(load_data(options));
  fmt::print("{}{}", options.json ? summary.json() : summary.text(options.labels), options.json ? "\n" : "");
}

void sample(const DataOptions& options) {
  const Dataset data = load_data(options);
  const ExampleStyle style{.colour = wants_colour(STDOUT_FILENO), .width = terminal_columns(STDOUT_FILENO, 100)};
  for (const std::size_t index : sample_indices(data.size(), options.count, options.seed)) {
    fmt::print("{}\n", options.json ? example_json(data, index) : example_text(data, index, style));
  }
}

}  // namespace

void add_data(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Inspect, generate and tokenize datasets");
  data->group(kData);
  data->require_subcommand(1);
  const auto options = std::make_shared<DataOptions>();

  CLI::App* show = data->add_subcommand("info", "Show sizes, labels, lengths, clients and times of a dataset");
  add_reading(*show, *options);
  show->add_option("--labels", options->labels, "Show at most this many labels, tags and sources")
      ->capture_default_str();
  show->callback([options] { info(*options); });

  CLI::App* draw = data->add_subcommand("sample", "Print examples of a dataset");
  add_reading(*draw, *options);
  draw->add_option("-n,--count", options->count, "Number of examples")->capture_default_str();
  draw->add_option("--seed", options->seed, "Seed of the sample")->capture_default_str();
  draw->callback([options] { sample(*options); });
}

}  // namespace chorus::inline cli
