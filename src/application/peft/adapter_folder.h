#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "application/models/pretrained.h"
#include "application/peft/tuning.h"

namespace chorus::inline peft {

/// What was trained beside a frozen network, in the format of Hugging Face PEFT: adapter_config.json and
/// adapter_model.safetensors, whose tensors are named base_model.model.<module>.lora_A.weight and so on, including the
/// trained head (modules_to_save). PEFT reads LoRA's. It has no bottleneck adapters, so PFEIFFER_ADAPTER,
/// HOULSBY_ADAPTER and our PREFIX_TUNING are for Chorus only (docs/reference/formats.md).
struct AdapterSave {
  const Model& model;    ///< of the saved variant
  const Params& params;  ///< C = 1
  const Tuning& tuning;
  Variant variant = {};                      ///< with explicit depth and width
  std::string base = {};                     ///< the folder of the network, for adapter_config.json
  std::vector<std::string> fresh_head = {};  ///< parameters of the head that the base lacks
};
void save_adapter(const std::filesystem::path& folder, const AdapterSave& what);

/// Whether a folder holds an adapter.
bool has_adapter(const std::filesystem::path& folder);

/// The tuning that adapter_config.json describes. DataError if Chorus does not have it.
std::unique_ptr<Tuning> read_tuning(const std::filesystem::path& folder);
/// Reads the adapter's tensors into a network with the tuning attached, and returns their names. DataError if they
/// belong to another model.
std::set<std::string> read_adapter(const std::filesystem::path& folder, const Params& params);

/// Loads a model folder like load_pretrained, and attaches the adapter in it or in `adapter`. Unless `options` say
/// otherwise, head and labels are those the adapter was trained with: a classifier's adapter fits the language model
/// that it was trained from.
Pretrained load_tuned(const std::filesystem::path& folder, LoadOptions options,
                      const std::filesystem::path& adapter = {});

/// The plain network with its low-rank updates merged into the weights: W + scale B A. ConfigError for attachments
/// without a plain equivalent.
struct PlainNetwork {
  std::unique_ptr<Model> model;
  Params params;
};
PlainNetwork merged(const Model& model, const Params& params, const Tuning& tuning);

}  // namespace chorus::inline peft
