#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "application/data/partition/population.h"
#include "application/data/partition/sparse_matrix.h"
#include "application/data/partition/truncated_svd.h"

namespace chorus {

struct TfidfConfig {
  std::size_t min_documents = 2;   ///< words of fewer texts are left out
  double max_share = 0.5;          ///< words of more than this share of the texts are left out (0 .. 1]
  std::size_t max_words = 20'000;  ///< of what remains the most frequent ones (by texts)
};

/// One row a text: (1 + ln tf) * (ln((1 + n) / (1 + df)) + 1), rows of length 1 (scikit-learn's smooth idf with
/// sublinear tf). Words are those of words.h; their order of columns is by name, so the matrix depends on the texts
/// only.
SparseMatrix tfidf(const TextAt& text, std::size_t texts, const TfidfConfig& config);

/// Latent semantic analysis as sentence features when there is no encoder: TF-IDF, truncated SVD, rows of length 1 (a
/// text without known words: zeros). Holds `texts` * rank floats; the index-only bound of the other partitioners does
/// not hold here.
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

/// Features that were computed elsewhere, such as sentence embeddings.
class GivenFeatures : public FeatureSource {
 public:
  GivenFeatures(FeatureMatrix matrix, std::string name) : matrix_(std::move(matrix)), name_(std::move(name)) {}
  FeatureMatrix features() const override { return matrix_; }
  std::string name() const override { return name_; }

 private:
  FeatureMatrix matrix_;
  std::string name_;
};

}  // namespace chorus
