#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "application/models/activation_cache.h"
#include "application/tasks/task.h"

namespace chorus {

struct EvaluateOptions {
  std::int64_t batch_tokens = 8192;  ///< tokens of a batch, padding within attention included
  Keep keep = Keep::kTotals;         ///< kUnits: the metric can be bootstrapped
  bool predictions = false;          ///< give them back
  std::uint64_t seed = 0;            ///< which tokens a masked LM is asked for
  ActivationCache* cache = nullptr;  ///< of what frozen bottom layers compute
};

struct Evaluation {
  std::unique_ptr<Metric> metric;  ///< to be merged with other clients'
  Scores scores;                   ///< metric->scores(), and "eval_loss", the mean over all answers
  std::vector<Prediction> predictions;
};

/// What is evaluated: some examples of an encoded split, and the dataset they come from (texts and golds).
struct EvaluationSet {
  const Dataset& data;
  std::shared_ptr<const EncodedDataset> encoded;
  std::span<const std::uint32_t> examples;
};

/// Answers the examples and measures the answers. Batches hold examples of like length, longest first, so that the
/// largest memory need comes at once; no gradients, no dropout. One client: params has C = 1. The scores do not depend
/// on the order of the examples; predictions come in the order they are given. (A causal LM with blocks answers for
/// blocks, not for examples.)
///
///     const auto test = data.split(Split::kTest);
///     Evaluation result = evaluate(*task, *model, params, {data, encoded, test});
///     result.scores.at("accuracy");
Evaluation evaluate(const Task& task, const Model& model, const Params& params, const EvaluationSet& set,
                    const EvaluateOptions& options = {});

}  // namespace chorus
