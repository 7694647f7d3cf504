#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "application/data/partition/partition.h"
#include "application/data/partition/population.h"

namespace chorus::inline partition {

/// Client sizes of one split.
struct SizeSummary {
  double mean = 0, deviation = 0;  ///< standard deviation over all clients (divided by n)
  double minimum = 0, maximum = 0;
  std::vector<double> quantiles;  ///< at kSizeQuantiles, linearly interpolated (NumPy's default)
  std::size_t empty = 0;          ///< clients without examples
  double gini = 0;                ///< 0: all equal; near 1: one client has all
};
inline constexpr double kSizeQuantiles[] = {0.05, 0.25, 0.5, 0.75, 0.95};

SizeSummary summarise_sizes(const ClientLists& lists);

/// The number of examples of each label at a client; unlabelled examples are not counted.
std::vector<std::size_t> label_histogram(const ClientLists& lists, std::size_t client, const Factor& labels);

/// exp(H) of the label distribution: 1 for one label, k for k equally frequent ones; 0 for no examples.
double effective_labels(std::span<const std::size_t> histogram);

/// Jensen-Shannon divergence in bits (base 2, so between 0 and 1) of two histograms; its square root is the
/// Jensen-Shannon distance, a metric. Two empty histograms: 0; one empty: 1.
double js_divergence(std::span<const std::size_t> a, std::span<const std::size_t> b);

/// Divergences between the label distributions of clients (Lin et al. 2022, Fig. 2).
struct JsMatrix {
  std::vector<std::size_t> clients;  ///< the clients of the rows, those with labelled examples
  std::vector<float> divergence;     ///< clients x clients, in bits; symmetric, zero diagonal
  double mean_divergence = 0;        ///< over pairs of distinct clients
  double mean_distance = 0;          ///< mean of the square roots

  float at(std::size_t i, std::size_t j) const { return divergence[i * clients.size() + j]; }
};

/// Over at most `most` clients with examples, evenly spread.
JsMatrix js_matrix(const ClientLists& lists, const Factor& labels, std::size_t most);

/// Vocabularies of clients (words of words.h) over their training texts.
struct VocabularyOverlap {
  std::vector<std::size_t> clients;                                  ///< those compared
  double mean_words = 0;                                             ///< distinct words per client
  double mean_jaccard = 0, lowest_jaccard = 0, highest_jaccard = 0;  ///< |A and B| / |A or B| over pairs
  double mean_share = 0;  ///< share of a client's words that occur at another compared client
};

/// Over at most `most` clients with examples, evenly spread.
VocabularyOverlap vocabulary_overlap(const ClientLists& lists, const TextAt& text, std::size_t most);

/// At most `most` clients with examples, evenly spread.
std::vector<std::size_t> sample_clients(const ClientLists& lists, std::size_t most);

}  // namespace chorus::inline partition
