#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "application/data/partition/population.h"

namespace chorus::inline encoder_features {

/// Sentence embeddings of a Hugging Face encoder as features for the partitioner `feature_clusters` (Lin et al. 2022,
/// appendix B: sentence vectors, k-means, Dirichlet over the clusters). The vector of a text is the mean of its last
/// hidden states, normalized to length 1. Texts are processed longest first in batches of equal work, without padding.
///
///     const EncoderFeatures features("models/chorus-mini", {.count = n, .text_at = text_at});
///     population.features = &features;
class EncoderFeatures : public FeatureSource {
 public:
  struct Texts {
    std::size_t count = 0;
    TextAt text_at = {};
    std::size_t max_length = 128;  ///< tokens; longer texts are truncated
  };

  /// Loads model and tokenizer (DataError); texts are read when `features` is called.
  EncoderFeatures(std::string folder, Texts texts);
  ~EncoderFeatures() override;

  FeatureMatrix features() const override;
  std::string name() const override;

 private:
  struct Loaded;
  std::string folder_;
  Texts texts_;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace chorus::inline encoder_features
