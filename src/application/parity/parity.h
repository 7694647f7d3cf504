#pragma once

#include <torch/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace chorus::inline parity {

/// How far a model folder is from the values that Hugging Face transformers computed for it.
///
/// A parity folder is a Hugging Face checkpoint plus expected.safetensors: input.* (ids, mask, types), label.*, logits
/// or start_logits/end_logits, loss, grad.<parameter>, adamw_losses (five full-batch steps, lr 1e-3, weight decay 0.01
/// on everything), generate.greedy and generate.beam<N> (early stopping). Only what is there is compared.
struct ParityReport {
  std::string folder;
  std::optional<double> logits;     ///< largest absolute difference, padded input as Hugging Face reads it
  std::optional<double> packed;     ///< the same on real tokens only, packed
  std::optional<double> loss;       ///< absolute difference
  std::optional<double> gradients;  ///< largest ||g - g'|| / ||g'|| of a parameter; see parity.cpp for g' = 0
  std::string worst_gradient;       ///< its name
  std::optional<double> adamw;      ///< largest absolute difference of the five losses
  std::optional<bool> generated;    ///< all generated ids are equal
  std::vector<std::string> misses;  ///< what exceeds its tolerance, in words

  bool passed() const { return misses.empty(); }
};

struct ParityTolerance {
  double logits = 2e-5;
  double loss = 2e-5;
  double gradients = 1e-4;
  double adamw = 1e-4;
};

/// Runs every comparison that the folder allows. DataError if it is not a parity folder.
ParityReport check_parity(const std::filesystem::path& folder, const ParityTolerance& tolerance = {},
                          at::Device device = at::kCPU);

}  // namespace chorus::inline parity
