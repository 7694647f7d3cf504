#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "application/trainer/train_client.h"
#include "core/ports/learner.h"

namespace chorus::inline trainer {

/// Predictions for rows of the public set, and losses against given targets (FedMD, FedID, FedDF). Rows are
/// numbered as ClientData::rows of the public set lists them.

/// The same rows for each of these clients. `chosen` takes their numbers in the data and must outlive the result.
std::vector<ClientRows> public_cohort(const ClientData& set, std::span<const std::uint32_t> rows,
                                      std::span<const TrainClient> clients, std::vector<std::uint32_t>& chosen);

/// How many answers each row of a public set has; empty: one each. Words whose first piece the model reads for tagging.
std::vector<std::int64_t> answer_counts(const Model& model, const ClientData& set);

/// Logits [C, n, K] of these rows for each client of `params`, without dropout and without gradients
/// (Learner::predict). ConfigError for a head that has no fixed list of answers per row.
at::Tensor predict_rows(const TrainerInput& trainer, const Params& params, const ClientData& set,
                        std::span<const std::uint32_t> rows);

/// The same for a batch that was read without Batch::answers.
at::Tensor predict_batch(const TrainerInput& trainer, const Params& params, TaskBatch batch, Dropout& dropout);

/// Whether there are any targets.
bool given(const Targets& targets);
/// ConfigError when answers of the model's head cannot be compared with such targets.
void check_targets(const TrainerInput& trainer, const Targets& targets);
/// The loss [C] of a model's output against the targets; with none, against the batch's own labels. When it is against
/// given ones, the batch was read without Batch::answers.
at::Tensor target_loss(const TrainerInput& trainer, const Output& output, const TaskBatch& batch,
                       const Targets& targets);

}  // namespace chorus::inline trainer
