#pragma once

#include <torch/types.h>

#include <vector>

#include "apps/experiment/experiment.h"

namespace chorus::inline experiment {

/// How much the loss of each of these training examples fell from `start` to `model` ([P] each), as a negative number:
/// what training has told the model about a text, beyond what the network knew (calibration by a reference model).
std::vector<double> loss_changes(const Experiment& experiment, const at::Tensor& start, const at::Tensor& model,
                                 std::span<const std::uint32_t> examples);

/// The first copy of every canary.
std::vector<std::uint32_t> canary_examples(const Experiment& experiment);

/// The median exposure of the planted canaries in bits (algorithm/audit/exposure.h).
double median_exposure(const Experiment& experiment, const at::Tensor& start, const at::Tensor& model);

}  // namespace chorus::inline experiment
