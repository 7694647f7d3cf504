#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "application/models/head.h"
#include "application/models/model_config.h"
#include "core/config/registry.h"

namespace chorus::inline models {

class Model;

/// The networks with one Hugging Face model_type, and what the rest of Chorus knows about them. A new family is a pair
/// of files with one registration:
///
///     const Registration<Models> kBert{"bert", "BERT encoder (Devlin et al., 2019)", [] {
///       return std::make_unique<ModelFamily>(ModelFamily{.make = ..., .class_prefix = "Bert", ...}); }};
struct ModelFamily {
  static constexpr std::string_view kKind = "model";

  std::function<std::unique_ptr<Model>(const ModelConfig&, Head)> make;
  std::string class_prefix;      ///< beginning of Hugging Face's class names: "DistilBert"
  std::vector<Head> heads;       ///< built by the family itself
  bool takes_modules = false;    ///< also takes heads with their own module (HeadTraits::module)
  std::string body_prefix = {};  ///< of the body's tensors under a head ("distilbert."); none in a bare model
  std::vector<std::string> lora_targets = {};  ///< default target modules of LoRA, as in PEFT
  bool transposed = false;                     ///< matmul weights are stored [in, out]: PEFT's fan_in_fan_out
  /// Heads whose class names do not end in HeadTraits::class_ending ("LMHeadModel").
  std::vector<std::pair<Head, std::string>> class_endings = {};
  /// Endings of tensor names in old checkpoints that nothing reads; not reported as unused.
  std::vector<std::string> constants = {};
  /// Endings of tensor names in kHeadLayer that belong to the body: a checkpoint must have them.
  std::vector<std::string> body_ends = {};
  /// Endings of tensor names in old checkpoints, and their present names.
  std::vector<std::pair<std::string, std::string>> old_endings = {};

  /// "BertForMaskedLM".
  std::string class_name(Head head) const;
  bool has(Head head) const;
};

/// By Hugging Face's model_type.
using Models = Registry<ModelFamily>;

/// The family that config.json names. DataError if Chorus does not have it.
ModelFamily family_of(const ModelConfig& config);

/// ConfigError naming the first key that no network of the family reads, and the nearest valid one: for a config.json
/// written by hand. Keys that transformers adds to every file are accepted.
void require_known_keys(const ModelConfig& config);

}  // namespace chorus::inline models
