#pragma once

#include <optional>
#include <string>

#include "application/data/partition/partition.h"
#include "application/data/partition/population.h"
#include "application/data/partition/statistics.h"

namespace chorus::inline partition {

/// Statistics of a partition. Labels, coverage and vocabularies need the data.
struct PartitionReport {
  const Partition* partition = nullptr;
  SizeSummary train, test;
  std::optional<Coverage> coverage;
  Factor labels;  ///< borrowed from the population, or the partition's own clusters
  std::vector<std::string> cluster_names;
  double mean_effective_labels = 0;  ///< over clients with examples
  std::optional<JsMatrix> js;
  std::optional<VocabularyOverlap> vocabulary;
};

struct ReportOptions {
  const Population* population = nullptr;  ///< null: use the partition file alone
  TextAt text = {};                        ///< empty: no vocabularies
  std::size_t most_clients = 100;          ///< in the Jensen-Shannon matrix and the vocabularies
  std::string where = "partition";         ///< for messages
};

/// DataError when the partition belongs to other data. The report borrows the partition and the population.
PartitionReport report_on(const Partition& partition, const ReportOptions& options);

/// One JSON object: sizes, quantiles, histograms (of at most `histograms` clients), the matrix, overlaps.
std::string report_json(const PartitionReport& report, std::size_t histograms = 1000);

struct PictureStyle {
  std::size_t width = 100;  ///< columns of the terminal
  std::size_t rows = 24;    ///< clients shown
  bool colour = false;
};

/// A terminal picture: a summary, one line per client with its size as a bar and its label mix as shades, and the
/// Jensen-Shannon matrix as shades. Shades alone carry the meaning; colour only helps.
std::string report_picture(const PartitionReport& report, const PictureStyle& style);

}  // namespace chorus::inline partition
