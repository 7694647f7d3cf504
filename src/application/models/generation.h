#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "application/models/model.h"

namespace chorus::inline models {

/// How to generate a text. Meanings and defaults are Hugging Face's.
struct GenerationOptions {
  enum class EarlyStopping {
    kNo,     ///< stop when no running beam, at its present length, can beat the worst finished one
    kYes,    ///< stop as soon as `beams` are finished
    kNever,  ///< continue until no running beam can ever beat them
  };

  std::int64_t max_new_tokens = 20;
  std::int64_t min_new_tokens = 0;
  std::int64_t beams = 1;  ///< 1: greedy
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::kNo;
  std::int64_t no_repeat_ngram = 0;  ///< no n-gram of this size twice; 0: off
  std::optional<std::int64_t> eos = {}, pad = {}, forced_bos = {}, forced_eos = {};

  /// The settings of a model folder (generation_config.json, else config.json): token ids, beams, penalties.
  static GenerationOptions of(const ModelConfig& config);
};

/// Generates one text per sequence of `batch` (C = 1). Returns the ids that Hugging Face's `generate` returns for that
/// sequence, without padding: the prompt or the decoder's start token, then the generated tokens, including the end
/// token. Deterministic. ConfigError if prompt and new tokens do not fit the model.
std::vector<std::vector<std::int64_t>> generate(const GenerativeModel& model, const Params& params, const Batch& batch,
                                                const GenerationOptions& options);

}  // namespace chorus::inline models
