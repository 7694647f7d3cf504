#pragma once

#include <torch/types.h>

#include "application/models/ops/packing.h"

namespace chorus::inline models {

/// Losses of a cohort. Each returns [C]: the mean over what the client's own labels cover, so that the gradient of
/// their sum is, for every client, the gradient of its own loss. A client without any label has loss 0.

/// Labels that do not count.
inline constexpr std::int64_t kIgnore = -100;

/// Cross-entropy of logits [C, M, K] with labels [C, M] (int64, kIgnore skips).
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels);
/// The same with tensor operations only.
at::Tensor cross_entropy_reference(const at::Tensor& logits, const at::Tensor& labels);

/// Distillation (Hinton et al. 2015): T^2 KL(p || softmax(logits / T)) of logits [C, M, K] with probabilities [C, M,
/// K]. A row of zeros does not count. At T = 1 a row of one 1 gives the cross-entropy of that label.
at::Tensor soft_cross_entropy(const at::Tensor& logits, const at::Tensor& probabilities, double temperature);

/// Mean squared error of logits [C, B, 1] with targets [C, B] (float) where valid [C, B].
at::Tensor squared_error(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& valid);

/// Extractive question answering: half the cross-entropy of the start and of the end over the tokens of each sequence.
/// logits [C, T, 2]; starts, ends [C, B] are places within the sequence; kIgnore, or a place beyond the sequence's
/// end, skips.
at::Tensor span_loss(const at::Tensor& logits, const at::Tensor& starts, const at::Tensor& ends,
                     const Packing& packing);

/// The labels of a causal language model: the next token's label of the same sequence, kIgnore at its end. [C, T].
at::Tensor next_token(const at::Tensor& labels, const Packing& packing);

}  // namespace chorus::inline models
