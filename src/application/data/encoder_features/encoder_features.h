#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "application/data/partition/population.h"

namespace chorus {

/// Sentence embeddings of a Hugging Face encoder as the features that `feature clusters` deals out by (FedNLP,
/// appendix B: sentence vectors, k-means, Dirichlet over the clusters). The vector of a text is the mean of its last
/// hidden states, scaled to length 1. Texts are read longest first in batches of equal work, so nothing is padded.
///
///     const EncoderFeatures features("models/chorus-mini", {.count = n, .text_at = text_at});
///     population.features = &features;
class EncoderFeatures : public FeatureSource {
 public:
  struct Texts {
    std::size_t count = 0;
    TextAt text_at = {};
    std::size_t max_length = 128;  ///< tokens; longer texts are cut
  };

  /// Reads model and tokenizer now (DataError), the texts when `features` is called.
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

}  // namespace chorus
