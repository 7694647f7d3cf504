#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "application/data/continual/time_segments.h"
#include "application/data/continual/utterance_shares.h"
#include "application/data/partition/dataset_population.h"
#include "application/data/partition/partition_file.h"
#include "application/data/partition/partitioner.h"
#include "application/data/readers/open_dataset.h"
#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline cli {
namespace {

struct SharesOptions {
  std::vector<std::string> paths, data_settings, cuts;
  std::string partition, group, by, segments, months, from, train_until, test_until;
  bool fold = false, repeated = false, json = false;
  std::size_t groups = 10;

  bool wants_time() const {
    return !(by.empty() && segments.empty() && months.empty() && from.empty() && train_until.empty() &&
             test_until.empty() && cuts.empty());
  }
};

/// One comparison: a period against everything before it.
struct Period {
  std::string name;
  ClientLists before, examples;
};

Dataset load(const SharesOptions& options) {
  DataConfig config = config_of_paths(options.paths);
  config.allow_new_labels = true;
  config.misaligned = Misaligned::kRealign;
  ConfigDocument::parse("", "--data-set", options.data_settings).fill([&](ConfigVisitor& v) { config.describe(v); });
  return open_dataset(config);
}

Partition devices(const SharesOptions& options, const Dataset& data) {
  if (!options.partition.empty()) {
    Partition partition = read_partition(options.partition, options.group);
    check_against_data(partition, data.size(), options.partition);
    return partition;
  }
  const DatasetPopulation population(data, 0);
  return Partitioners::make("natural")->make(population.view(), {});
}

TimeSegmentsConfig segments_config(const SharesOptions& options) {
  TimeSegmentsConfig config;
  std::vector<std::string> settings;
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) settings.push_back(fmt::format("{}={}", key, value));
  };
  set("by", options.by.empty() && !options.cuts.empty() ? "cuts" : options.by);
  // The default is calendar months. --train-until makes one comparison: what follows against everything before.
  const bool one = options.by.empty() && options.cuts.empty() && !options.train_until.empty();
  set("by", one ? "count" : "");
  set("segments", !options.segments.empty()                    ? options.segments
                  : one                                        ? "1"
                  : options.by.empty() && options.cuts.empty() ? "0"
                                                               : "");
  set("months", options.months);
  set("from", options.from);
  set("test_from", options.train_until);
  set("test_until", options.test_until);
  config.cuts = options.cuts;
  ConfigDocument::parse("", "the command line", settings).fill([&](ConfigVisitor& v) { config.describe(v); });
  return config;
}

std::vector<Period> periods_of(const SharesOptions& options, const Dataset& data, const Partition& partition) {
  if (!options.wants_time() && partition.test.total() > 0) return {{"test split", partition.train, partition.test}};
  if (data.times().empty() && !options.wants_time()) {
    throw DataError(
        "the data has neither a test split nor times to compare; add a test file, "
        "or a partition with --partition");
  }
  const TimeSegments segments = time_segments(partition, data.times(), segments_config(options));
  const auto name = [](const TimeRange& range) {
    return fmt::format("{} to {}", time_text(range.first), time_text(range.second));
  };
  std::vector<Period> periods;
  TimeSegments past;
  for (std::size_t s = 0; s < segments.train.size(); ++s) {
    if (s > 0) periods.push_back({name(segments.bounds[s]), past.united(), segments.train[s]});
    past.train.push_back(segments.train[s]);
  }
  periods.push_back({segments.test_bounds ? name(*segments.test_bounds) : "test split", past.united(), segments.test});
  return periods;
}

void shares(const SharesOptions& options) {
  const Dataset data = load(options);
  const Partition partition = devices(options, data);
  const std::vector<Period> periods = periods_of(options, data, partition);
  const UtteranceOptions how{.same = options.fold ? SameText::kFolded : SameText::kExact,
                             .repeated = options.repeated,
                             .groups = options.groups};
  std::vector<UtteranceReport> reports;
  bool alike = true;
  for (const Period& period : periods) {
    reports.push_back(utterance_shares(data, period.before, period.examples, how));
    alike = alike && reports.back().groups.size() == reports.front().groups.size();
    if (options.json) continue;
    fmt::print("{}, against {} earlier utterances ({} distinct)\n\n{}\n", period.name, period.before.total(),
               reports.back().known, shares_table(reports.back()));
  }
  const bool mean = reports.size() > 1 && alike;
  if (!options.json) {
    if (mean) fmt::print("mean of these {} periods\n\n{}", reports.size(), shares_table(mean_of(reports)));
    return;
  }
  fmt::print("{{\"periods\":[");
  for (std::size_t p = 0; p < periods.size(); ++p) {
    fmt::print("{}{{\"period\":\"{}\",\"shares\":{}}}", p == 0 ? "" : ",", periods[p].name, shares_json(reports[p]));
  }
  fmt::print("]{}}}\n", mean ? fmt::format(",\"mean\":{}", shares_json(mean_of(reports))) : "");
}

}  // namespace

void add_data_shares(CLI::App& app) {
  CLI::App* data = app.get_subcommand("data");
  const auto options = std::make_shared<SharesOptions>();
  CLI::App* command = data->add_subcommand(
      "shares",
      "Show how much of what devices say is new, by decile of activity (Dupuy et al. 2022, Fig. 4)\n\n"
      "  chorus data shares messages.jsonl.gz                             each month against all earlier ones\n"
      "  chorus data shares messages.jsonl.gz --train-until 2005-06-01    what follows against what came before\n"
      "  chorus data shares train.jsonl test.jsonl                        the test file against the training file\n\n"
      "Shares of a device's distinct utterances of a period: own (it said them before), others' (only others said "
      "them\n"
      "before) and new. Deciles group devices from least to most active and show mean shares.");
  command->add_option("path", options->paths, "Files or folders, as for 'chorus data info'")->required();
  command
      ->add_option("--data-set", options->data_settings,
                   "How to read them, for example --data-set columns.client=author")
      ->allow_extra_args(false);
  command->add_option("--partition", options->partition, "A partition file to use instead of the data's clients");
  command->add_option("-g,--group", options->group, "The partition in that file");
  command->add_option("--train-until", options->train_until, "Start of the (last) period: 2005-06-01, or seconds");
  command->add_option("--test-until", options->test_until, "End of that period");
  command->add_option("--from", options->from, "Ignore what is older");
  command->add_option("--by", options->by, "How to cut periods: months, duration, count or cuts (default: months)");
  command->add_option("--segments", options->segments, "Number of periods before the last one (months: 0 for all)");
  command->add_option("--months", options->months, "Calendar months per period");
  command->add_option("--cuts", options->cuts, "Start of the second, third, ... period")->delimiter(',');
  command->add_flag("--fold", options->fold, "Ignore case and whitespace");
  command->add_flag("--repeated", options->repeated, "Count repeated utterances of a device each time");
  command->add_option("--groups", options->groups, "Number of groups of devices")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { shares(*options); });
}

}  // namespace chorus::inline cli
