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

/// The networks that Hugging Face calls by one model_type, with everything the rest of Chorus knows about them. Adding
/// a family is a pair of files with one registration:
///
///     const Registration<Models> kBert{"bert", "BERT encoder (Devlin et al., 2019)", [] {
///       return std::make_unique<ModelFamily>(ModelFamily{.make = ..., .class_prefix = "Bert", ...}); }};
struct ModelFamily {
  static constexpr std::string_view kKind = "model";

  std::function<std::unique_ptr<Model>(const ModelConfig&, Head)> make;
  std::string class_prefix;      ///< how Hugging Face's class names begin: "DistilBert"
  std::vector<Head> heads;       ///< that the family builds itself
  bool takes_modules = false;    ///< also carries heads with a module of their own (HeadTraits::module)
  std::string body_prefix = {};  ///< of the body's tensors under a head ("distilbert."); a bare model has none
  std::vector<std::string> lora_targets = {};  ///< modules that LoRA is attached to by default, as in PEFT
  bool transposed = false;                     ///< matmul weights are stored [in, out]: PEFT's fan_in_fan_out
  /// Heads whose class names end in another way than HeadTraits::class_ending ("LMHeadModel").
  std::vector<std::pair<Head, std::string>> class_endings = {};
  /// Ends of names of tensors in old checkpoints that nothing reads. They are not reported as unused.
  std::vector<std::string> constants = {};
  /// Ends of names of tensors that are in kHeadLayer but belong to the body: a checkpoint must have them.
  std::vector<std::string> body_ends = {};
  /// Ends of tensor names in old checkpoints, and what they are today.
  std::vector<std::pair<std::string, std::string>> old_endings = {};

  /// "BertForMaskedLM".
  std::string class_name(Head head) const;
  bool has(Head head) const;
};

/// By Hugging Face's model_type.
using Models = Registry<ModelFamily>;

/// The family that config.json names. DataError when it names none that Chorus has.
ModelFamily family_of(const ModelConfig& config);

/// ConfigError naming the first key that no network of the family reads, with the nearest one that it does: for a
/// config.json that a person writes. Keys that transformers adds to every file are fine.
void require_known_keys(const ModelConfig& config);

}  // namespace chorus::inline models
