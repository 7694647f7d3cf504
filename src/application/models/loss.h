#pragma once

#include <torch/types.h>

#include "application/models/ops/packing.h"

namespace chorus::inline models {

/// Losses of a cohort. Each returns [C]: the mean over a client's own labels, so that the gradient of the sum gives
/// every client the gradient of its own loss. A client without labels has loss 0.

/// A label that is not counted.
inline constexpr std::int64_t kIgnore = -100;

/// Cross-entropy of logits [C, M, K] with labels [C, M] (int64, kIgnore skips).
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels);
/// The same with tensor operations only.
at::Tensor cross_entropy_reference(const at::Tensor& logits, const at::Tensor& labels);

/// Distillation (Hinton et al. 2015): T^2 KL(p || softmax(logits / T)) of logits [C, M, K] with probabilities [C, M,
/// K]. A row of zeros is not counted. At T = 1, a one-hot row gives the cross-entropy of that label.
at::Tensor soft_cross_entropy(const at::Tensor& logits, const at::Tensor& probabilities, double temperature);

/// Mean squared error of logits [C, B, 1] with targets [C, B] (float) where valid [C, B].
at::Tensor squared_error(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& valid);

/// Extractive question answering: the mean of the cross-entropies of start and end over the tokens of each sequence.
/// logits [C, T, 2]; starts, ends [C, B] are token indices in the sequence; kIgnore, or an index past the sequence's
/// end, is not counted.
at::Tensor span_loss(const at::Tensor& logits, const at::Tensor& starts, const at::Tensor& ends,
                     const Packing& packing);

/// Labels for a causal language model: the label of the next token in the same sequence, kIgnore at its end. [C, T].
at::Tensor next_token(const at::Tensor& labels, const Packing& packing);

}  // namespace chorus::inline models
