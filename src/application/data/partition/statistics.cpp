#include "application/data/partition/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "application/data/partition/words.h"
#include "core/base/rng.h"

namespace chorus::inline partition {
namespace {

double quantile(std::span<const double> sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

std::size_t sum_of(std::span<const std::size_t> histogram) {
  std::size_t sum = 0;
  for (const std::size_t count : histogram) sum += count;
  return sum;
}

}  // namespace

SizeSummary summarise_sizes(const ClientLists& lists) {
  SizeSummary summary;
  if (lists.clients() == 0) return summary;
  std::vector<double> sizes(lists.clients());
  for (std::size_t c = 0; c < sizes.size(); ++c) {
    sizes[c] = static_cast<double>(lists.size_of(c));
    if (lists.size_of(c) == 0) ++summary.empty;
  }
  std::sort(sizes.begin(), sizes.end());
  const auto n = static_cast<double>(sizes.size());
  double square = 0, weighted = 0;
  summary.mean = static_cast<double>(lists.total()) / n;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    square += (sizes[i] - summary.mean) * (sizes[i] - summary.mean);
    weighted += (2 * static_cast<double>(i + 1) - n - 1) * sizes[i];
  }
  summary.deviation = std::sqrt(square / n);
  summary.gini = lists.total() > 0 ? weighted / (n * static_cast<double>(lists.total())) : 0;
  summary.minimum = sizes.front();
  summary.maximum = sizes.back();
  for (const double q : kSizeQuantiles) summary.quantiles.push_back(quantile(sizes, q));
  return summary;
}

std::vector<std::size_t> label_histogram(const ClientLists& lists, std::size_t client, const Factor& labels) {
  std::vector<std::size_t> histogram(labels.names.size());
  if (labels.empty()) return histogram;
  for (const ExampleId id : lists[client]) {
    if (labels.ids[id] != Factor::kNoValue) ++histogram[static_cast<std::size_t>(labels.ids[id])];
  }
  return histogram;
}

double effective_labels(std::span<const std::size_t> histogram) {
  const auto total = static_cast<double>(sum_of(histogram));
  if (total == 0) return 0;
  double entropy = 0;
  for (const std::size_t count : histogram) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / total;
    entropy -= p * std::log(p);
  }
  return std::exp(entropy);
}

double js_divergence(std::span<const std::size_t> a, std::span<const std::size_t> b) {
  const auto total_a = static_cast<double>(sum_of(a));
  const auto total_b = static_cast<double>(sum_of(b));
  if (total_a == 0 && total_b == 0) return 0;
  if (total_a == 0 || total_b == 0) return 1;
  double divergence = 0;
  for (std::size_t l = 0; l < a.size(); ++l) {
    const double p = static_cast<double>(a[l]) / total_a;
    const double q = static_cast<double>(b[l]) / total_b;
    const double m = (p + q) / 2;
    if (p > 0) divergence += 0.5 * p * std::log2(p / m);
    if (q > 0) divergence += 0.5 * q * std::log2(q / m);
  }
  return std::clamp(divergence, 0.0, 1.0);
}

std::vector<std::size_t> sample_clients(const ClientLists& lists, std::size_t most) {
  std::vector<std::size_t> holders;
  for (std::size_t c = 0; c < lists.clients(); ++c) {
    if (lists.size_of(c) > 0) holders.push_back(c);
  }
  if (holders.size() <= most) return holders;
  std::vector<std::size_t> sample(most);
  for (std::size_t i = 0; i < most; ++i) sample[i] = holders[i * holders.size() / most];
  return sample;
}

JsMatrix js_matrix(const ClientLists& lists, const Factor& labels, std::size_t most) {
  JsMatrix matrix;
  std::vector<std::vector<std::size_t>> histograms;
  for (const std::size_t c : sample_clients(lists, most)) {
    std::vector<std::size_t> histogram = label_histogram(lists, c, labels);
    if (sum_of(histogram) == 0) continue;
    histograms.push_back(std::move(histogram));
    matrix.clients.push_back(c);
  }
  const std::size_t n = matrix.clients.size();
  matrix.divergence.assign(n * n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double divergence = js_divergence(histograms[i], histograms[j]);
      matrix.divergence[i * n + j] = matrix.divergence[j * n + i] = static_cast<float>(divergence);
      matrix.mean_divergence += divergence;
      matrix.mean_distance += std::sqrt(divergence);
    }
  }
  const double pairs = n < 2 ? 1 : static_cast<double>(n) * static_cast<double>(n - 1) / 2;
  matrix.mean_divergence /= pairs;
  matrix.mean_distance /= pairs;
  return matrix;
}

VocabularyOverlap vocabulary_overlap(const ClientLists& lists, const TextAt& text, std::size_t most) {
  VocabularyOverlap overlap;
  overlap.clients = sample_clients(lists, most);
  const std::size_t n = overlap.clients.size();
  if (n == 0) return overlap;

  // Words as 64-bit hashes: the collision probability among a million words is 3e-8.
  std::vector<std::vector<std::uint64_t>> words(n);
  std::string joined, scratch;
  for (std::size_t i = 0; i < n; ++i) {
    for (const ExampleId id : lists[overlap.clients[i]]) {
      for_each_word(text(id, joined), scratch, [&](std::string_view word) { words[i].push_back(hash_name(word)); });
      if (words[i].size() > (std::size_t{1} << 22)) {
        std::sort(words[i].begin(), words[i].end());
        words[i].erase(std::unique(words[i].begin(), words[i].end()), words[i].end());
      }
    }
    std::sort(words[i].begin(), words[i].end());
    words[i].erase(std::unique(words[i].begin(), words[i].end()), words[i].end());
    words[i].shrink_to_fit();
    overlap.mean_words += static_cast<double>(words[i].size()) / static_cast<double>(n);
  }

  std::unordered_map<std::uint64_t, std::uint32_t> holders;
  for (const auto& mine : words) {
    for (const std::uint64_t word : mine) ++holders[word];
  }
  for (const auto& mine : words) {
    std::size_t shared = 0;
    for (const std::uint64_t word : mine) shared += holders[word] > 1 ? 1 : 0;
    if (!mine.empty()) {
      overlap.mean_share += static_cast<double>(shared) / static_cast<double>(mine.size()) / static_cast<double>(n);
    }
  }

  overlap.lowest_jaccard = n < 2 ? 0 : 1;
  double pairs = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      std::size_t common = 0;
      for (auto a = words[i].begin(), b = words[j].begin(); a != words[i].end() && b != words[j].end();) {
        if (*a == *b)
          ++common, ++a, ++b;
        else if (*a < *b)
          ++a;
        else
          ++b;
      }
      const std::size_t all = words[i].size() + words[j].size() - common;
      const double jaccard = all == 0 ? 0 : static_cast<double>(common) / static_cast<double>(all);
      overlap.mean_jaccard += jaccard;
      overlap.lowest_jaccard = std::min(overlap.lowest_jaccard, jaccard);
      overlap.highest_jaccard = std::max(overlap.highest_jaccard, jaccard);
      pairs += 1;
    }
  }
  if (pairs > 0) overlap.mean_jaccard /= pairs;
  return overlap;
}

}  // namespace chorus::inline partition
