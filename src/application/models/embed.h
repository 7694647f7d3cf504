#pragma once

#include <vector>

#include "application/models/batch.h"

namespace chorus::inline models {

/// Sentence vectors: the mean of the last hidden states over each sequence's tokens, [N, H], for one client (C = 1).
/// With `normalise` each has length 1. ConfigError for an encoder-decoder.
at::Tensor mean_embeddings(const Model& model, const Params& params, const std::vector<TokenRow>& sequences,
                           bool normalise);

}  // namespace chorus::inline models
