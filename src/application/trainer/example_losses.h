#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "application/trainer/train_client.h"

namespace chorus::inline trainer {

/// The loss of each single example under these values [P], without dropout: what an attacker who has the model and a
/// text can compute. Many examples are one pass, as rows of the cohort dimension. A language model that trains on
/// blocks is asked about each text alone. An example without tokens has a loss that is not a number.
///
///     const std::vector<double> losses = example_losses({task, model, base}, values, encoded, examples);
std::vector<double> example_losses(const TrainerInput& trainer, const at::Tensor& values,
                                   const std::shared_ptr<const EncodedDataset>& encoded,
                                   std::span<const std::uint32_t> examples);

}  // namespace chorus::inline trainer
