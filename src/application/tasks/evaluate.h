#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "application/models/activation_cache.h"
#include "application/tasks/task.h"

namespace chorus::inline tasks {

struct EvaluateOptions {
  std::int64_t batch_tokens = 0;     ///< tokens of a batch, all clients together; 0: what suits the device
  int workers = 0;                   ///< CPU: threads with batches of their own; 0: one per core. GPU: ignored
  Keep keep = Keep::kTotals;         ///< kUnits: the metric can be bootstrapped
  bool predictions = false;          ///< return them
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

/// Answers the examples and measures the answers: forward passes only, no dropout. Rows are packed into large batches
/// of similar length, longest first, so that the peak of memory comes first. `params` has C = 1; with bfloat16 shadow
/// copies (Params::with_shadow) the matmuls run in bfloat16.
///
/// On a CPU each batch is computed by one thread, several batches side by side; sums go over batches in a fixed order,
/// so that results do not depend on the number of workers or cores. On a GPU the next batch is collated and the answers
/// of the previous one are decoded while a batch is computed; losses stay on the device until the end.
///
/// The scores do not depend on the order of the examples; predictions come in the order they are given. (A causal LM
/// with blocks answers for blocks, not for examples.)
///
///     const auto test = data.split(Split::kTest);
///     Evaluation result = evaluate(*task, *model, params, {data, encoded, test});
///     result.scores.at("accuracy");
Evaluation evaluate(const Task& task, const Model& model, const Params& params, const EvaluationSet& set,
                    const EvaluateOptions& options = {});

/// The same for C clients with models of their own (params [C, P]) as one batched computation: sets[c] is answered by
/// client c. A client without examples gets an empty metric and an eval_loss of NaN.
std::vector<Evaluation> evaluate_cohort(const Task& task, const Model& model, const Params& params,
                                        std::span<const EvaluationSet> sets, const EvaluateOptions& options = {});

}  // namespace chorus::inline tasks
