#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "application/data/dataset_summary.h"
#include "application/data/example_text.h"
#include "application/data/readers/format.h"
#include "application/data/readers/open_dataset.h"
#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/console/terminal.h"

namespace chorus::inline cli {
namespace {

struct DataOptions {
  std::vector<std::string> paths;
  std::string format = "auto";
  std::string formulation = "auto";
  std::vector<std::string> columns;
  std::string header = "auto";
  std::string misaligned = "realign";
  std::int64_t limit = 0;
  bool strict = false;
  bool json = false;
  std::size_t labels = 12;
  std::size_t count = 5;
  std::uint64_t seed = 0;
};

void set_column(ColumnNames& names, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals);
  const std::pair<const char*, std::string*> known[] = {
      {"id", &names.id},         {"text", &names.text},     {"second", &names.second}, {"label", &names.label},
      {"score", &names.score},   {"words", &names.words},   {"tags", &names.tags},     {"answers", &names.answers},
      {"client", &names.client}, {"source", &names.source}, {"time", &names.time}};
  for (const auto& [name, value] : known) {
    if (key == name && equals != std::string::npos) {
      *value = setting.substr(equals + 1);
      return;
    }
  }
  throw ConfigError(
      fmt::format("--column: expected ROLE=NAME with ROLE one of id, text, second, label, score, words, tags, "
                  "answers, client, source, time; not '{}'",
                  setting));
}

Dataset load(const DataOptions& options) {
  DataConfig config;
  if (options.format == "parallel") {
    config.train = options.paths;
  } else {
    config = config_of_paths(options.paths);
  }
  config.format = options.format;
  config.formulation = options.formulation;
  config.header = options.header;
  config.limit = options.limit;
  for (const std::string& setting : options.columns) set_column(config.columns, setting);
  if (options.strict) return open_dataset(config);
  config.allow_new_labels = true;
  config.misaligned = options.misaligned == "skip"      ? Misaligned::kSkip
                      : options.misaligned == "realign" ? Misaligned::kRealign
                                                        : Misaligned::kError;
  return open_dataset(config);
}

void info(const DataOptions& options) {
  const DatasetSummary summary = summarise(load(options));
  fmt::print("{}{}", options.json ? summary.json() : summary.text(options.labels), options.json ? "\n" : "");
}

void sample(const DataOptions& options) {
  const Dataset data = load(options);
  const ExampleStyle style{.colour = wants_colour(STDOUT_FILENO), .width = terminal_columns(STDOUT_FILENO, 100)};
  for (const std::size_t index : sample_indices(data.size(), options.count, options.seed)) {
    fmt::print("{}\n", options.json ? example_json(data, index) : example_text(data, index, style));
  }
}

void add_reading(CLI::App& command, DataOptions& options) {
  command
      .add_option("path", options.paths,
                  "Files or folders; train, dev/val or test in a name sets the split, other files are training data")
      ->required();
  command.add_option("--format", options.format, "File format; see 'chorus list reader'")->capture_default_str();
  command.add_option("--formulation", options.formulation, "The kind of problem; auto: from the data")
      ->capture_default_str();
  command
      .add_option("--column", options.columns,
                  "Column or field of a role, for example --column text=title+body --column label=class")
      ->allow_extra_args(false);
  command.add_option("--header", options.header, "CSV, TSV: whether the first row names the columns: yes, no, auto")
      ->capture_default_str();
  command
      .add_option("--misaligned", options.misaligned,
                  "What to do with answers that are not at their offset: realign, skip, error")
      ->check(CLI::IsMember({"realign", "skip", "error"}))
      ->capture_default_str();
  command.add_option("--limit", options.limit, "Read at most this many examples per split (0: all)");
  command.add_flag("--strict", options.strict,
                   "Fail where a run fails: misplaced answers, labels that only the test set has");
  command.add_flag("--json", options.json, "Print JSON");
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
