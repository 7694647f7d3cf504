#pragma once

#include "application/trainer/batch_reader.h"

namespace chorus::inline trainer {

/// H v [C, P] of the loss of a batch and its dropout at values w [C, P], for each client of a cohort, in float32: the
/// gradient g(w) is computed with a graph, and g(w) . v is differentiated by w (Pearlmutter 1994). Costs about as much
/// as two backward passes of LibTorch's operators, which are slower than ours.
///
/// ConfigError for a network with an operator that LibTorch cannot differentiate twice.
at::Tensor hessian_times(const TrainerInput& trainer, const at::Tensor& values, const at::Tensor& direction,
                         Reading reading);

}  // namespace chorus::inline trainer
