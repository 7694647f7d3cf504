#pragma once

#include <torch/types.h>

#include <cstddef>
#include <vector>

namespace chorus::inline trainer {

/// Why a client fails.
inline constexpr const char* kNotANumber =
    "the loss is not a number (try a lower learning rate, or clip the gradients)";
inline constexpr const char* kNoRows = "it has no rows to train on: its texts are empty after tokenization";

/// Copies a tensor to a vector of doubles. Waits for the GPU.
std::vector<double> as_doubles(const at::Tensor& numbers);

/// Each client's mean loss over its batches; batch i has the losses [A] of the first A clients. 0 for a client without
/// batches. One copy from a GPU.
std::vector<double> mean_losses(const std::vector<at::Tensor>& losses, std::size_t clients);

}  // namespace chorus::inline trainer
