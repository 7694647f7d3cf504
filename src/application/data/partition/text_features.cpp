#include "application/data/partition/text_features.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "application/data/partition/words.h"

namespace chorus::inline partition {
namespace {

struct WordCount {
  std::size_t documents = 0;
  std::size_t last = 0;  // the last counted text, plus one
  std::uint32_t column = 0;
  bool kept = false;
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

using WordCounts = std::unordered_map<std::string, WordCount, TextHash, std::equal_to<>>;

WordCounts count_words(const TextAt& text, std::size_t texts) {
  WordCounts counts;
  std::string joined, scratch;
  for (std::size_t i = 0; i < texts; ++i) {
    for_each_word(text(i, joined), scratch, [&](std::string_view word) {
      auto found = counts.find(word);
      if (found == counts.end()) found = counts.emplace(std::string(word), WordCount{}).first;
      if (found->second.last == i + 1) return;
      found->second.last = i + 1;
      ++found->second.documents;
    });
  }
  return counts;
}

std::size_t choose_columns(WordCounts& counts, std::size_t texts, const TfidfConfig& config) {
  std::vector<WordCounts::value_type*> kept;
  const double most =
      std::max(config.max_share * static_cast<double>(texts), static_cast<double>(config.min_documents));
  for (auto& entry : counts) {
    const std::size_t documents = entry.second.documents;
    if (documents >= config.min_documents && static_cast<double>(documents) <= most) kept.push_back(&entry);
  }
  std::sort(kept.begin(), kept.end(), [](const auto* a, const auto* b) {
    return a->second.documents != b->second.documents ? a->second.documents > b->second.documents : a->first < b->first;
  });
  if (kept.size() > config.max_words) kept.resize(config.max_words);
  std::sort(kept.begin(), kept.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  for (std::size_t c = 0; c < kept.size(); ++c) {
    kept[c]->second.kept = true;
    kept[c]->second.column = static_cast<std::uint32_t>(c);
  }
  return kept.size();
}

}  // namespace

SparseMatrix tfidf(const TextAt& text, std::size_t texts, const TfidfConfig& config) {
  WordCounts counts = count_words(text, texts);
  SparseMatrix matrix;
  matrix.columns = choose_columns(counts, texts, config);
  std::vector<double> idf(matrix.columns);
  for (const auto& [word, count] : counts) {
    if (!count.kept) continue;
    idf[count.column] = std::log((1.0 + static_cast<double>(texts)) / (1.0 + static_cast<double>(count.documents))) + 1;
  }

  std::string joined, scratch;
  std::vector<std::uint32_t> found;
  std::vector<std::pair<std::uint32_t, double>> row;
  for (std::size_t i = 0; i < texts; ++i) {
    found.clear();
    for_each_word(text(i, joined), scratch, [&](std::string_view word) {
      const auto entry = counts.find(word);
      if (entry->second.kept) found.push_back(entry->second.column);
    });
    std::sort(found.begin(), found.end());
    row.clear();
    double norm = 0;
    for (std::size_t at = 0; at < found.size();) {
      std::size_t end = at;
      while (end < found.size() && found[end] == found[at]) ++end;
      const double weight = (1 + std::log(static_cast<double>(end - at))) * idf[found[at]];
      row.emplace_back(found[at], weight);
      norm += weight * weight;
      at = end;
    }
    norm = norm > 0 ? 1 / std::sqrt(norm) : 0;
    for (const auto& [column, weight] : row) {
      matrix.column.push_back(column);
      matrix.value.push_back(static_cast<float>(weight * norm));
    }
    matrix.begin.push_back(matrix.column.size());
  }
  return matrix;
}

FeatureMatrix TextFeatures::features() const {
  TruncatedSvd svd = truncated_svd(tfidf(text_, texts_, words_), svd_, seed_);
  for (std::size_t i = 0; i < svd.projected.rows; ++i) {
    double norm = 0;
    for (const float value : svd.projected.row(i)) norm += static_cast<double>(value) * value;
    if (norm <= 0) continue;
    const auto scale = static_cast<float>(1 / std::sqrt(norm));
    for (float& value : svd.projected.row(i)) value *= scale;
  }
  return std::move(svd.projected);
}

}  // namespace chorus::inline partition
