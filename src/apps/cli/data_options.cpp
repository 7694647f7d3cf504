#include "apps/cli/data_options.h"

#include <fmt/format.h>

#include "application/data/readers/open_dataset.h"
#include "core/base/error.h"

namespace chorus::inline cli {

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

Dataset load_data(const DataOptions& options) {
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

}  // namespace chorus::inline cli
