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

namespace chorus::cli {
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

/// One comparison: what came before, and a period.
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
  // Months are counted unless told otherwise; a time to train until makes one comparison, everything before against it.
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
        "the data has neither a test split nor times, so there is nothing to compare; give a test file too, "
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
    fmt::print("{}, against {} utterances before ({} different)\n\n{}\n", period.name, period.before.total(),
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
      "how much of what devices say is new, by decile of activity (paper 002, Fig. 4)\n\n"
      "  chorus data shares messages.jsonl.gz                             each month against all before\n"
      "  chorus data shares messages.jsonl.gz --train-until 2005-06-01    what follows, against what was before\n"
      "  chorus data shares train.jsonl test.jsonl                        the test file against the training file\n\n"
      "Of a device's different utterances of a period: own are those it said before, others' those that only others\n"
      "said before, new the rest. Deciles are of devices, from least to most active; their shares are means.");
  command->add_option("path", options->paths, "files or folders, as for: chorus data info")->required();
  command
      ->add_option("--data-set", options->data_settings,
                   "how to read them, for example: --data-set columns.client=author")
      ->allow_extra_args(false);
  command->add_option("--partition", options->partition,
                      "who holds what: a partition file, instead of the data's clients");
  command->add_option("-g,--group", options->group, "which partition of that file");
  command->add_option("--train-until", options->train_until, "where the (last) period begins: 2005-06-01, or seconds");
  command->add_option("--test-until", options->test_until, "where it ends");
  command->add_option("--from", options->from, "what is older is left out");
  command->add_option("--by", options->by, "periods by months, duration, count or cuts (default: months)");
  command->add_option("--segments", options->segments, "how many periods come before the last one (months: 0 for all)");
  command->add_option("--months", options->months, "calendar months a period");
  command->add_option("--cuts", options->cuts, "where the second, third, ... period begins")->delimiter(',');
  command->add_flag("--fold", options->fold, "case and blanks do not make a difference");
  command->add_flag("--repeated", options->repeated, "count what a device says twice twice");
  command->add_option("--groups", options->groups, "groups of devices")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { shares(*options); });
}

}  // namespace chorus::cli
