#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "application/models/pretrained.h"
#include "application/peft/tuning.h"

namespace chorus::inline peft {

/// What was trained beside a frozen network, in the layout of Hugging Face PEFT: adapter_config.json and
/// adapter_model.safetensors, whose tensors are called base_model.model.<module>.lora_A.weight and so on; the head
/// that was trained stands there, too (modules_to_save). PEFT itself reads LoRA's; its library has no bottleneck
/// adapters, so PFEIFFER_ADAPTER, HOULSBY_ADAPTER and our PREFIX_TUNING are for Chorus (docs/reference/formats.md).
struct AdapterSave {
  const Model& model;    ///< of the variant that is saved
  const Params& params;  ///< C = 1
  const Tuning& tuning;
  Variant variant = {};                      ///< with both numbers
  std::string base = {};                     ///< the folder of the network, for adapter_config.json
  std::vector<std::string> fresh_head = {};  ///< of the head: what the base does not have
};
void save_adapter(const std::filesystem::path& folder, const AdapterSave& what);

/// Whether a folder holds an adapter.
bool has_adapter(const std::filesystem::path& folder);

/// The tuning that adapter_config.json describes. DataError when it is none that Chorus has.
std::unique_ptr<Tuning> read_tuning(const std::filesystem::path& folder);
/// Reads the adapter's tensors into a network that the tuning is attached to, and returns their names. DataError when
/// they belong to another model.
std::set<std::string> read_adapter(const std::filesystem::path& folder, const Params& params);

/// A model folder as load_pretrained reads it, with the adapter that lies in it, or in `adapter`, attached. Unless
/// `options` say otherwise the head is the one the adapter was trained for, with the adapter's labels: an adapter of a
/// classifier fits the language model that it was trained from.
Pretrained load_tuned(const std::filesystem::path& folder, LoadOptions options,
                      const std::filesystem::path& adapter = {});

/// The plain network with its low-rank updates added to the weights: W + scale B A. ConfigError for attachments that
/// have no plain equivalent.
struct PlainNetwork {
  std::unique_ptr<Model> model;
  Params params;
};
PlainNetwork merged(const Model& model, const Params& params, const Tuning& tuning);

}  // namespace chorus::inline peft
