#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "application/models/activation_cache.h"
#include "application/tasks/task.h"

namespace chorus::inline tasks {

struct EvaluateOptions {
  std::int64_t batch_tokens = 0;     ///< tokens per batch over all clients; 0: chosen for the device
  int workers = 0;                   ///< CPU: threads, each with its own batches; 0: one per core. GPU: ignored
  Keep keep = Keep::kTotals;         ///< kUnits: the metric can be bootstrapped
  bool predictions = false;          ///< return them
  std::uint64_t seed = 0;            ///< of the tokens that a masked LM must predict
  ActivationCache* cache = nullptr;  ///< for the outputs of frozen bottom layers
};

struct Evaluation {
  std::unique_ptr<Metric> metric;  ///< can be merged with other clients'
  Scores scores;                   ///< metric->scores(), and "eval_loss", the mean over all counted labels
  std::vector<Prediction> predictions;
};

/// What to evaluate: some examples of an encoded split, and their dataset (texts and golds).
struct EvaluationSet {
  const Dataset& data;
  std::shared_ptr<const EncodedDataset> encoded;
  std::span<const std::uint32_t> examples;
};

/// Predicts and scores the examples: forward passes only, no dropout. Rows are packed into large batches of similar
/// length, longest first, so that memory peaks at the start. `params` has C = 1; with bfloat16 shadow copies
/// (Params::with_shadow) the matmuls run in bfloat16.
///
/// On a CPU, each batch is computed by one thread, and several batches in parallel; sums go over batches in a fixed
/// order, so that results do not depend on the number of workers or cores. On a GPU, while a batch is computed, the
/// next one is collated and the previous one is decoded; losses stay on the device until the end.
///
/// The scores do not depend on the order of the examples; predictions are in the given order. (A causal LM with blocks
/// has predictions per block, not per example.)
///
///     const auto test = data.split(Split::kTest);
///     Evaluation result = evaluate(*task, *model, params, {data, encoded, test});
///     result.scores.at("accuracy");
Evaluation evaluate(const Task& task, const Model& model, const Params& params, const EvaluationSet& set,
                    const EvaluateOptions& options = {});

/// The same for C clients with their own models (params [C, P]) as one batched computation: client c evaluates sets[c].
/// A client without examples gets an empty metric and an eval_loss of NaN.
std::vector<Evaluation> evaluate_cohort(const Task& task, const Model& model, const Params& params,
                                        std::span<const EvaluationSet> sets, const EvaluateOptions& options = {});

}  // namespace chorus::inline tasks
