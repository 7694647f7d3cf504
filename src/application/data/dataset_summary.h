#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "application/data/dataset.h"

namespace chorus::inline data {

/// Minimum, quartiles, ninth decile, maximum and mean.
struct Quantiles {
  double min = 0, q25 = 0, median = 0, q75 = 0, q90 = 0, max = 0, mean = 0;
};

/// `values` is reordered. Nearest-rank quantiles; all 0 without values.
Quantiles quantiles_of(std::vector<std::uint64_t>& values);

/// The output of `chorus data info`.
struct DatasetSummary {
  struct Name {
    std::string name;
    std::array<std::uint64_t, kSplits> counts{};  ///< examples (tags: words) of each split
  };

  std::string formulation;
  std::array<std::uint64_t, kSplits> sizes{};
  std::uint64_t unlabelled = 0;  ///< examples without the target of their formulation
  std::vector<Name> labels;      ///< in id order
  std::vector<Name> tags;
  Quantiles words;       ///< separated by whitespace, or tagged words
  Quantiles characters;  ///< code points of the text
  Quantiles second_words;
  bool has_second = false;
  std::uint64_t answers = 0;
  Quantiles scores;
  bool has_scores = false;
  std::uint64_t clients = 0;
  Quantiles client_sizes;
  std::vector<Name> sources;
  std::int64_t first_time = kNoTime;
  std::int64_t last_time = kNoTime;
  std::uint64_t memory = 0;
  std::string fingerprint;
  ReadReport report;

  /// For a terminal: at most `most` labels, tags and sources each, the rest as a count. (Notes of the report were
  /// logged.)
  std::string text(std::size_t most = 12) const;
  std::string json() const;
};

DatasetSummary summarise(const Dataset& data);

}  // namespace chorus::inline data
