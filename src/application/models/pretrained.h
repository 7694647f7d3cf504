#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "application/models/model.h"

namespace chorus::inline models {

/// How to load a Hugging Face folder.
struct LoadOptions {
  std::optional<Head> head = {};  ///< replaces the folder's head; initialised if the folder has no such head
  /// Label names of a classifier, replacing the folder's. Another number of labels, or other names where both sides
  /// have names, means another head; the same names in another order move the rows of the head.
  std::optional<std::vector<std::string>> labels = {};
  bool same_labels = false;                  ///< DataError if the folder's head has labels of other names
  std::function<void(Model&)> prepare = {};  ///< freezes and attaches, before values are loaded
  bool gradients = false;                    ///< allocate gradients
  at::Device device = at::kCPU;
  std::uint64_t seed = 0;  ///< for parameters that the folder lacks
  bool quiet = false;      ///< no log line about tensors: the caller logs its own
};

/// What did not come from the folder, and what was not used of it. All are empty for an exact match.
struct LoadReport {
  std::vector<std::string> initialised;  ///< parameters of the head that the folder lacks
  std::vector<std::string> unused;       ///< tensors of other heads, or unknown ones
  std::vector<std::string> tied;         ///< further copies of a tensor
  bool own_head = false;                 ///< the head is the one in config.json
  std::vector<std::string> untied = {};  ///< of `tied`, those whose values differ from the ones used
};

struct Pretrained {
  std::unique_ptr<Model> model;
  Params params;  ///< C = 1
  LoadReport report;
  ModelConfig generation;  ///< generation_config.json over config.json
};

/// Reads config.json and the weights (safetensors or pytorch_model.bin, sharded or not; any float type becomes float32)
/// of any folder that transformers' from_pretrained loads. The body must be complete, with or without the prefix that
/// it has under a head. Missing parameters of the head are initialised from the seed, and surplus tensors (a pooler,
/// other heads) are ignored; one log line names both. Without `options.head`, the head is the one in config.json, or,
/// if Chorus does not have it, the largest one whose tensors are all there. Wrong shapes, NaN and infinity are
/// DataErrors that name file and tensors.
///
///     Pretrained bert = load_pretrained("models/chorus-mini", {.head = Head::kSequenceClassification});
Pretrained load_pretrained(const std::filesystem::path& folder, const LoadOptions& options = {});

/// Logs initialised, unused and tied tensors, if any. A warning if the head that config.json names is incomplete.
void log_report(const std::filesystem::path& folder, const Model& model, const LoadReport& report);

/// Settings for generation: generation_config.json, if there is one, over config.json.
ModelConfig read_generation_config(const std::filesystem::path& folder);

struct SaveOptions {
  std::int64_t client = 0;            ///< whose values to save
  at::ScalarType dtype = at::kFloat;  ///< kFloat, kHalf or kBFloat16
  std::size_t max_shard_bytes = std::size_t{5} << 30;
  /// The folder the model came from; its tokenizer and generation_config.json are copied.
  std::filesystem::path like = {};
};

/// Writes a folder that transformers' from_pretrained loads: config.json, model.safetensors (or shards). Creates parent
/// folders. Each file is replaced atomically, the weights last.
void save_pretrained(const std::filesystem::path& folder, const Model& model, const Params& params,
                     const SaveOptions& options = {});

/// DataError if a tokenizer of `vocabulary` entries cannot belong to the model: it has ids past the embedding, or the
/// embedding has more rows than the vocabulary rounded up to a multiple of 128.
void check_vocabulary(const Model& model, std::int64_t vocabulary, const std::string& tokenizer);

}  // namespace chorus::inline models
