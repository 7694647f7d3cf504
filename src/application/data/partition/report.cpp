#include "application/data/partition/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace chorus::inline partition {
namespace {

using Json = nlohmann::ordered_json;

Json sizes_json(const SizeSummary& sizes, const ClientLists& lists) {
  Json json{{"examples", lists.total()}, {"mean", sizes.mean},       {"deviation", sizes.deviation},
            {"minimum", sizes.minimum},  {"maximum", sizes.maximum}, {"empty_clients", sizes.empty},
            {"gini", sizes.gini}};
  for (std::size_t i = 0; i < sizes.quantiles.size(); ++i) {
    json["quantiles"][fmt::format("{:g}", kSizeQuantiles[i])] = sizes.quantiles[i];
  }
  return json;
}

Json js_json(const JsMatrix& js) {
  Json json{{"unit", "Jensen-Shannon divergence, base 2"},
            {"mean_divergence", js.mean_divergence},
            {"mean_distance", js.mean_distance},
            {"clients", js.clients}};
  Json rows = Json::array();
  for (std::size_t i = 0; i < js.clients.size(); ++i) {
    Json row = Json::array();
    for (std::size_t j = 0; j < js.clients.size(); ++j) row.push_back(js.at(i, j));
    rows.push_back(std::move(row));
  }
  json["divergence"] = std::move(rows);
  return json;
}

}  // namespace

PartitionReport report_on(const Partition& partition, const ReportOptions& options) {
  PartitionReport report;
  report.partition = &partition;
  report.train = summarise_sizes(partition.train);
  report.test = summarise_sizes(partition.test);
  if (options.population != nullptr) {
    const Population& population = *options.population;
    Coverage coverage = check_against_data(partition, population.examples, options.where);
    // The validation split is not dealt out, so it cannot be missing.
    const std::size_t dealt = population.train.size() + population.test.size();
    coverage.missing = dealt > coverage.held ? dealt - coverage.held : 0;
    report.coverage = coverage;
    report.labels = population.labels;
  }
  if (report.labels.empty() && !partition.clusters.empty()) {
    std::size_t held = 0;
    for (const ClientLists* lists : {&partition.train, &partition.test}) {
      for (const ExampleId id : lists->ids()) held = std::max<std::size_t>(held, id + std::size_t{1});
    }
    if (held <= partition.clusters.size()) {
      const std::int32_t top = *std::max_element(partition.clusters.begin(), partition.clusters.end());
      for (std::int32_t k = 0; k <= std::min(top, 9999); ++k)
        report.cluster_names.push_back(fmt::format("cluster {}", k));
      if (top <= 9999) report.labels = {partition.clusters, report.cluster_names};
    }
  }
  if (!report.labels.empty()) {
    report.js = js_matrix(partition.train, report.labels, options.most_clients);
    std::size_t holders = 0;
    for (std::size_t c = 0; c < partition.clients(); ++c) {
      if (partition.train.size_of(c) == 0) continue;
      report.mean_effective_labels += effective_labels(label_histogram(partition.train, c, report.labels));
      ++holders;
    }
    if (holders > 0) report.mean_effective_labels /= static_cast<double>(holders);
  }
  if (options.text) report.vocabulary = vocabulary_overlap(partition.train, options.text, options.most_clients);
  return report;
}

std::string report_json(const PartitionReport& report, std::size_t histograms) {
  const Partition& partition = *report.partition;
  Json json{{"group", partition.info.group}, {"method", partition.info.method}, {"clients", partition.clients()}};
  if (partition.info.seed) json["seed"] = *partition.info.seed;
  for (const auto& [name, value] : partition.info.numbers) json["numbers"][name] = value;
  for (const auto& [name, value] : partition.info.choices) json["choices"][name] = value;
  json["train"] = sizes_json(report.train, partition.train);
  json["test"] = sizes_json(report.test, partition.test);
  if (report.coverage) {
    json["coverage"] = {{"held", report.coverage->held},
                        {"missing", report.coverage->missing},
                        {"repeated", report.coverage->repeated}};
  }
  Json sizes = Json::array();
  for (std::size_t c = 0; c < partition.clients(); ++c) sizes.push_back(partition.train.size_of(c));
  json["train_sizes"] = std::move(sizes);
  if (!report.labels.empty()) {
    json["labels"] = std::vector<std::string>(report.labels.names.begin(), report.labels.names.end());
    json["mean_effective_labels"] = report.mean_effective_labels;
    Json rows = Json::array();
    for (std::size_t c = 0; c < std::min(histograms, partition.clients()); ++c) {
      rows.push_back(label_histogram(partition.train, c, report.labels));
    }
    json["train_label_histograms"] = std::move(rows);
  }
  if (report.js) json["jensen_shannon"] = js_json(*report.js);
  if (report.vocabulary) {
    const VocabularyOverlap& overlap = *report.vocabulary;
    json["vocabulary"] = {{"clients_compared", overlap.clients.size()}, {"mean_words", overlap.mean_words},
                          {"mean_jaccard", overlap.mean_jaccard},       {"lowest_jaccard", overlap.lowest_jaccard},
                          {"highest_jaccard", overlap.highest_jaccard}, {"mean_shared", overlap.mean_share}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace chorus::inline partition
