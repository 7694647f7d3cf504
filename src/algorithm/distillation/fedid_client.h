#pragma once

#include "algorithm/distillation/own_models.h"

namespace chorus::inline distillation {

/// The client half of FedID (fedid.h). Both procedures run in one session; between asks a client keeps its learner and
/// its last predictions.
///
///   fedid/begin   trains the client's own model on its own data, then answers for batch 0 of the public set
///       numbers   public_* (PublicOrder), steps and rate (a factor) of the learning-rate schedule, dropout: 1 while
///       predicting, batch
///   fedid/step    one step on the batch it has answered, then answers for "batch"; without that number it keeps its
///                 model and answers nothing more
///       tensors   ensemble: logits [n, K], with hard labels the mean of the clients', with soft ones those whose
///       softmax
///                 is the mean of their probabilities; missing: no distillation
///                 slopes: dL/dy [n, K] divided by its largest absolute value, for feedback by gradient
///       numbers   hard, renew: 1: a new optimizer; own: feedback: w_k delta, or w_k times that value with slopes
inline constexpr const char* kFedIdBegin = "fedid/begin";
inline constexpr const char* kFedIdStep = "fedid/step";

/// The targets of a client's step: `own` [C, n, K] are its predictions, `feedback` [C] the factors of its own labels.
Targets fedid_targets(const Message& body, const at::Tensor& own, const std::vector<double>& feedback);

}  // namespace chorus::inline distillation
