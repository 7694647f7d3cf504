#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "application/data/partition/population.h"
#include "application/data/partition/sparse_matrix.h"
#include "application/data/partition/truncated_svd.h"

namespace chorus::inline partition {

struct TfidfConfig {
  std::size_t min_documents = 2;   ///< ignore words in fewer texts
  double max_share = 0.5;          ///< ignore words in more than this share of the texts, (0 .. 1]
  std::size_t max_words = 20'000;  ///< keep the most frequent ones (by texts)
};

/// One row per text: (1 + ln tf) * (ln((1 + n) / (1 + df)) + 1), normalized to length 1 (scikit-learn's smooth idf with
/// sublinear tf). Words are those of words.h; columns are sorted by word, so the matrix depends on the texts only.
SparseMatrix tfidf(const TextAt& text, std::size_t texts, const TfidfConfig& config);

/// Latent semantic analysis as sentence features without an encoder: TF-IDF, truncated SVD, rows of length 1 (zeros for
/// a text without known words). Holds `texts` * rank floats, unlike the other partitioners, which hold only indices.
class TextFeatures : public FeatureSource {
 public:
  TextFeatures(TextAt text, std::size_t texts, std::uint64_t seed, TfidfConfig words = {}, SvdConfig svd = {})
      : text_(std::move(text)), texts_(texts), seed_(seed), words_(words), svd_(svd) {}
  FeatureMatrix features() const override;
  std::string name() const override { return "tfidf_svd"; }

 private:
  TextAt text_;
  std::size_t texts_;
  std::uint64_t seed_;
  TfidfConfig words_;
  SvdConfig svd_;
};

/// Precomputed features, such as sentence embeddings.
class GivenFeatures : public FeatureSource {
 public:
  GivenFeatures(FeatureMatrix matrix, std::string name) : matrix_(std::move(matrix)), name_(std::move(name)) {}
  FeatureMatrix features() const override { return matrix_; }
  std::string name() const override { return name_; }

 private:
  FeatureMatrix matrix_;
  std::string name_;
};

}  // namespace chorus::inline partition
