#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "application/models/batch.h"

namespace chorus::inline models {

/// How a text's last hidden states become one vector (Reimers and Gurevych, 2019).
enum class Pooling {
  kFirst,         ///< the first token's, [CLS]
  kMax,           ///< the maximum of each element
  kMean,          ///< the mean
  kMeanSqrt,      ///< the sum divided by the square root of the number of tokens
  kWeightedMean,  ///< the mean with weights 1, 2, 3, ...
  kLast,          ///< the last token's
};

/// "cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken": the names of sentence-transformers. ConfigError
/// that lists them for another.
Pooling pooling_named(const std::string& name);

/// How to embed a text.
struct SentenceEmbedding {
  /// A step after the pooling: y = activation(x W^T + b), or, without a weight, y = x / |x|.
  struct Step {
    at::Tensor weight = {}, bias = {};
    bool tanh = false;
  };

  std::filesystem::path network = {};               ///< folder of the transformer
  std::vector<Pooling> pooling = {Pooling::kMean};  ///< several are concatenated
  std::vector<Step> steps = {};
  std::int64_t max_length = 0;  ///< in tokens; 0: the model's
  bool lowercase = false;       ///< lower-case texts before tokenizing
  std::string prompt = {};      ///< prepended to each text
};

/// Reads the settings of a sentence-transformers folder (modules.json, the config.json of each module,
/// sentence_bert_config.json, config_sentence_transformers.json). Without modules.json: the mean over all tokens.
/// DataError, naming the file, for an unknown module.
SentenceEmbedding read_sentence_embedding(const std::filesystem::path& folder);

/// One vector per sequence, [N, H], of one client (C = 1). ConfigError for an encoder-decoder.
at::Tensor sentence_vectors(const Model& model, const Params& params, const std::vector<TokenRow>& sequences,
                            const SentenceEmbedding& how);

}  // namespace chorus::inline models
