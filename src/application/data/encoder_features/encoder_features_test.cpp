#include "application/data/encoder_features/encoder_features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/base/error.h"

namespace chorus::inline encoder_features {
namespace {

TEST(EncoderFeatures, SimilarSentencesAreNearAndOrderIsKept) {
  const std::string folder = CHORUS_SOURCE_DIR "/models/chorus-mini";
  const std::vector<std::string> texts{"the ship sailed over the sea in the storm", "a film about love",
                                       "a boat crossed the stormy ocean", "", "this movie is a love story"};
  const EncoderFeatures features(folder, {.count = texts.size(), .text_at = [&](std::size_t i, std::string&) {
                                            return std::string_view(texts[i]);
                                          }});
  const FeatureMatrix matrix = features.features();
  ASSERT_EQ(matrix.rows, texts.size());
  EXPECT_EQ(matrix.columns, 256u);
  EXPECT_EQ(features.name(), "chorus-mini");
  const auto cosine = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t k = 0; k < matrix.columns; ++k) sum += matrix.row(a)[k] * matrix.row(b)[k];
    return sum;
  };
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_NEAR(cosine(i, i), 1, 1e-4);
  EXPECT_GT(cosine(0, 2), cosine(0, 1));
  EXPECT_GT(cosine(1, 4), cosine(1, 2));
}

TEST(EncoderFeatures, AMissingModelIsADataError) { EXPECT_THROW(EncoderFeatures("no/such/folder", {}), DataError); }

}  // namespace
}  // namespace chorus::inline encoder_features
