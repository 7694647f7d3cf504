#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>

#include "application/data/encoder_features/encoder_features.h"
#include "application/data/partition/dataset_population.h"
#include "application/data/partition/figures.h"
#include "application/data/partition/partition_file.h"
#include "application/data/partition/partitioner.h"
#include "application/data/partition/report.h"
#include "application/data/readers/open_dataset.h"
#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/console/log.h"
#include "core/console/terminal.h"
#include "core/console/text_table.h"
#include "core/files/files.h"

namespace chorus::inline cli {
namespace {

struct DataChoice {
  std::vector<std::string> paths;
  std::vector<std::string> settings;
};

struct PartitionOptions {
  DataChoice data;
  std::string method = "label_dirichlet", out, name, test_mix = "independent", hold_out = "random";
  std::int64_t clients = 0;
  std::uint64_t seed = 42;
  std::vector<std::string> alphas, betas, settings;
  std::string clusters, shards, by, encoder;
  double test_share = 0;
  bool force = false, json = false;
};

struct ShowOptions {
  DataChoice data;
  std::string file, svg;
  std::vector<std::string> groups;
  std::size_t rows = 24;
  bool json = false, words = false;
};

Dataset load(const DataChoice& choice) {
  DataConfig config = config_of_paths(choice.paths);
  config.allow_new_labels = true;
  config.misaligned = Misaligned::kRealign;
  ConfigDocument::parse("", "--data-set", choice.settings).fill([&](ConfigVisitor& v) { config.describe(v); });
  return open_dataset(config);
}

void add_data_options(CLI::App& command, DataChoice& choice) {
  command.add_option("--data", choice.paths, "files or folders of the data, as for: chorus data info");
  command
      .add_option("--data-set", choice.settings,
                  "how to read them, for example: --data-set columns.label=class --data-set format=jsonl")
      ->allow_extra_args(false);
}

/// One object, or an array of several.
void print_reports(const std::vector<std::string>& reports) {
  if (reports.size() == 1) {
    fmt::print("{}\n", reports.front());
  } else {
    fmt::print("[{}]\n", fmt::join(reports, ",\n"));
  }
}

Partition make_one(const PartitionOptions& options, const DatasetPopulation& population,
                   std::vector<std::string> settings) {
  for (const auto& [key, value] : {std::pair<const char*, const std::string*>{"clusters", &options.clusters},
                                   {"shards", &options.shards},
                                   {"by", &options.by}}) {
    if (!value->empty()) settings.push_back(fmt::format("{}={}", key, *value));
  }
  settings.insert(settings.end(), options.settings.begin(), options.settings.end());
  Choice<Partitioners> choice;
  choice.select(options.method);
  ConfigDocument::parse("", "the method's settings", settings).fill([&](ConfigVisitor& v) { choice.describe(v); });
  const TestMix mix = options.test_mix == "same" ? TestMix::kSame : TestMix::kIndependent;
  Partition partition = choice.make()->make(
      population.view(), {.clients = static_cast<std::size_t>(options.clients), .seed = options.seed, .test_mix = mix});
  if (options.test_share != 0) {
    const bool latest = options.hold_out == "latest";
    if (latest && population.view().times.empty()) throw DataError("--hold-out latest: the data has no time column");
    hold_out(partition, options.test_share, latest ? population.view().times : std::span<const std::int64_t>{},
             options.seed);
    partition.info.numbers["test_share"] = options.test_share;
    partition.info.choices["hold_out"] = options.hold_out;
  }
  if (!options.name.empty()) partition.info.group = options.name;
  return partition;
}

void make(const PartitionOptions& options) {
  RegistryIndex::global().get(Partitioner::kKind, options.method);  // fail before minutes of reading
  if (options.clients < 0) throw ConfigError(fmt::format("--clients is {}; it cannot be negative", options.clients));
  if (options.clients == 0 && options.method != "natural") {
    throw ConfigError(fmt::format("--clients is missing: {} needs the number of clients", options.method));
  }
  const std::vector<std::string> none{""};
  const auto& alphas = options.alphas.empty() ? none : options.alphas;
  const auto& betas = options.betas.empty() ? none : options.betas;
  if (!options.name.empty() && alphas.size() * betas.size() > 1) {
    throw ConfigError("--name takes one partition; several values of --alpha or --beta make several");
  }
  const Dataset data = load(options.data);
  DatasetPopulation population(data, options.seed);
  std::optional<EncoderFeatures> embeddings;
  if (!options.encoder.empty()) {
    embeddings.emplace(options.encoder, EncoderFeatures::Texts{.count = data.size(), .text_at = feature_text(data)});
    population.use_features(*embeddings);
  }
  std::vector<std::string> reports;
  for (const std::string& alpha : alphas) {
    for (const std::string& beta : betas) {
      std::vector<std::string> settings;
      if (!alpha.empty()) settings.push_back("alpha=" + alpha);
      if (!beta.empty()) settings.push_back("beta=" + beta);
      const Partition partition = make_one(options, population, settings);
      if (const std::string warning = empty_clients_warning(partition); !warning.empty()) {
        Log("partition").warning("{}: {}", partition.info.group, warning);
      }
      write_partition(options.out, partition, options.force);
      const PartitionReport report = report_on(partition, {.population = &population.view(), .where = options.out});
      if (options.json) {
        reports.push_back(report_json(report));
        continue;
      }
      fmt::print("{}: {}, {} clients, {} train and {} test examples{}\n", options.out, partition.info.group,
                 partition.clients(), partition.train.total(), partition.test.total(),
                 report.js ? fmt::format(", mean Jensen-Shannon divergence {:.4f}", report.js->mean_divergence) : "");
    }
  }
  if (options.json) print_reports(reports);
}

std::string overview(const ShowOptions& options, const std::vector<Partition>& partitions,
                     const DatasetPopulation* population) {
  using Align = TextTable::Align;
  TextTable table({{"partition"},
                   {"method"},
                   {"clients", Align::kRight},
                   {"train", Align::kRight},
                   {"test", Align::kRight},
                   {"per client: min", Align::kRight},
                   {"median", Align::kRight},
                   {"max", Align::kRight},
                   {"mean JS", Align::kRight}});
  for (const Partition& partition : partitions) {
    const PartitionReport report =
        report_on(partition, {.population = population == nullptr ? nullptr : &population->view(),
                              .where = fmt::format("{}, {}", options.file, partition.info.group)});
    const bool any = !report.train.quantiles.empty();
    table.add({partition.info.group, partition.info.method, fmt::format("{}", partition.clients()),
               fmt::format("{}", partition.train.total()), fmt::format("{}", partition.test.total()),
               fmt::format("{:.0f}", report.train.minimum), any ? fmt::format("{:.0f}", report.train.quantiles[2]) : "",
               fmt::format("{:.0f}", report.train.maximum),
               report.js ? fmt::format("{:.4f}", report.js->mean_divergence) : ""});
  }
  return table.render();
}

void write_figures(const ShowOptions& options, const std::vector<Partition>& partitions, const Factor& labels) {
  std::vector<FigurePanel> panels;
  for (const Partition& partition : partitions) panels.push_back({panel_title(partition), &partition});
  const std::filesystem::path folder = options.svg;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw DataError(fmt::format("cannot make the folder {}: {}", options.svg, error.message()));
  const auto put = [&](const char* name, const std::string& svg) {
    write_file(folder / name, svg);
    fmt::print(stderr, "wrote {}\n", (folder / name).string());
  };
  put("client_sizes.svg", size_figure(panels));
  if (labels.empty()) {
    fmt::print(stderr, "the figures of labels need the data: give it with --data\n");
    return;
  }
  put("js_matrix.svg", js_figure(panels, labels));
  put("label_mix.svg", label_mix_figure(panels, labels));
  put("label_counts.svg", label_count_figure(panels, labels));
}

/// alpha 5 before alpha 10, unlike the order of names.
void sort_by_parameters(std::vector<Partition>& partitions) {
  const auto number = [](const Partition& partition, const char* name) {
    const auto found = partition.info.numbers.find(name);
    return found == partition.info.numbers.end() ? 0 : found->second;
  };
  const auto key = [&](const Partition& partition) {
    return std::tuple(partition.info.method, partition.clients(), number(partition, "alpha"),
                      number(partition, "beta"));
  };
  std::stable_sort(partitions.begin(), partitions.end(),
                   [&](const Partition& a, const Partition& b) { return key(a) < key(b); });
}

void show(const ShowOptions& options) {
  std::vector<Partition> partitions;
  if (options.groups.empty()) {
    for (const std::string& group : partition_groups(options.file)) {
      partitions.push_back(read_partition(options.file, group));
    }
    if (partitions.empty()) throw DataError(fmt::format("{} holds no partition", options.file));
    sort_by_parameters(partitions);
  }
  for (const std::string& group : options.groups) partitions.push_back(read_partition(options.file, group));

  std::optional<Dataset> data;
  std::optional<DatasetPopulation> population;
  if (!options.data.paths.empty()) {
    data.emplace(load(options.data));
    population.emplace(*data, 0);
  }
  const DatasetPopulation* known = population ? &*population : nullptr;
  const bool list = partitions.size() > 1 && options.groups.empty();
  if (list && !options.json) {
    fmt::print("{}", overview(options, partitions, known));
    if (options.svg.empty()) fmt::print("\nDetails of one: chorus partition show {} --group NAME\n", options.file);
  } else {
    std::vector<std::string> reports;
    for (const Partition& partition : partitions) {
      const PartitionReport report =
          report_on(partition, {.population = known == nullptr ? nullptr : &known->view(),
                                .text = known == nullptr || !options.words ? TextAt{} : known->full_text(),
                                .where = fmt::format("{}, {}", options.file, partition.info.group)});
      if (options.json) {
        reports.push_back(report_json(report));
      } else {
        fmt::print("{}\n", report_picture(report, {.width = terminal_columns(STDOUT_FILENO, 100),
                                                   .rows = options.rows,
                                                   .colour = wants_colour(STDOUT_FILENO)}));
      }
    }
    if (options.json) print_reports(reports);
  }
  if (!options.svg.empty()) {
    for (const Partition& partition : partitions) {
      if (known != nullptr) check_against_data(partition, known->view().examples, options.file);
    }
    write_figures(options, partitions, known == nullptr ? Factor{} : known->view().labels);
  }
}

void add_make(CLI::App& parent) {
  const auto options = std::make_shared<PartitionOptions>();
  CLI::App* command = parent.add_subcommand("make", "assign the examples of a dataset to clients");
  add_data_options(*command, options->data);
  command->get_option("--data")->required();
  command->add_option("-m,--method", options->method, "how: see chorus list partitioner")->capture_default_str();
  command->add_option("-n,--clients", options->clients, "number of clients (natural: as many as the data has)");
  command->add_option("-o,--out", options->out, "the partition file, .h5 or .json; added to when it exists")
      ->required();
  command
      ->add_option("--alpha", options->alphas, "label concentration; several values (1,5,10) make several partitions")
      ->delimiter(',');
  command->add_option("--beta", options->betas, "size concentration; the same")->delimiter(',');
  command->add_option("--clusters", options->clusters, "feature_clusters: number of clusters");
  command->add_option(
      "--encoder", options->encoder,
      "feature_clusters, kmeans: cluster the sentence vectors of this model folder, not TF-IDF and SVD");
  command->add_option("--shards", options->shards, "shards: number per client");
  command->add_option("--by", options->by, "what to partition by: label, source or client");
  command->add_option("--set", options->settings, "any setting of the method, key=value (chorus describe METHOD)")
      ->allow_extra_args(false);
  command->add_option("--seed", options->seed, "the same seed gives the same partition")->capture_default_str();
  command
      ->add_option("--test-mix", options->test_mix, "a client's test labels: independent of its train labels, or same")
      ->check(CLI::IsMember({"independent", "same"}))
      ->capture_default_str();
  command->add_option("--test-share", options->test_share,
                      "data without a test split: share of each client to hold out");
  command->add_option("--hold-out", options->hold_out, "which examples are held out: random or latest")
      ->check(CLI::IsMember({"random", "latest"}))
      ->capture_default_str();
  command->add_option("--name", options->name, "the partition's name in the file (default: FedNLP's)");
  command->add_flag("--force", options->force, "replace the partition of that name");
  command->add_flag("--json", options->json,
                    "print statistics as JSON: one object, or an array when several partitions are made");
  command->callback([options] { make(*options); });
}

void add_show(CLI::App& parent) {
  const auto options = std::make_shared<ShowOptions>();
  CLI::App* command = parent.add_subcommand("show", "show a partition file");
  command->add_option("file", options->file, "the partition file, .h5 or .json")->required();
  command->add_option("-g,--group", options->groups, "which partition, in either spelling; may be repeated")
      ->allow_extra_args(false);
  add_data_options(*command, options->data);
  command->add_option("--rows", options->rows, "clients in the picture")->capture_default_str();
  command->add_flag("--words", options->words, "with --data: vocabulary overlap between clients");
  command->add_flag("--json", options->json, "print JSON: one object, or an array when there are several partitions");
  command->add_option("--svg", options->svg, "write figures into this folder (several groups: side by side)");
  command->callback([options] { show(*options); });
}

}  // namespace

void add_partition(CLI::App& app) {
  CLI::App* partition = app.add_subcommand("partition", "assign data to clients, and show partitions");
  partition->group(kData);
  partition->require_subcommand(1);
  add_make(*partition);
  add_show(*partition);
}

}  // namespace chorus::inline cli
