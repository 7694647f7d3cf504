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

/// How a Hugging Face folder becomes a model.
struct LoadOptions {
  std::optional<Head> head = {};  ///< another head than the folder's: initialised where the folder has none
  /// Label names of a classifier, instead of the folder's. Another number of them means another head.
  std::optional<std::vector<std::string>> labels = {};
  std::function<void(Model&)> prepare = {};  ///< freezes and attaches, before the values are loaded
  bool gradients = false;                    ///< room for gradients
  at::Device device = at::kCPU;
  std::uint64_t seed = 0;  ///< of the parameters the folder does not have
  bool quiet = false;      ///< without the log line about tensors: the caller logs its own
};

/// What did not come from the folder, and what of the folder was not used. All are empty for an exact match.
struct LoadReport {
  std::vector<std::string> initialised;  ///< parameters of the head that the folder does not have
  std::vector<std::string> unused;       ///< tensors of other heads, or of nothing that Chorus knows
  std::vector<std::string> tied;         ///< further copies of a tensor that the model has once
  bool own_head = false;                 ///< the head is the one that config.json names
  std::vector<std::string> untied = {};  ///< of `tied`, those with other values than the one that is used
};

struct Pretrained {
  std::unique_ptr<Model> model;
  Params params;  ///< C = 1
  LoadReport report;
  ModelConfig generation;  ///< generation_config.json over config.json
};

/// Reads config.json and the weights (safetensors or pytorch_model.bin, sharded or not; any float type becomes float32)
/// of any folder that transformers' from_pretrained loads. The body must be complete, with or without the prefix that
/// it has under a head. What the head lacks is initialised from the seed, and what is left over (a pooler, other heads)
/// is not used; one log line names both. Without `options.head` the head is the one that config.json names, or, if it
/// names none that Chorus has, the largest one whose tensors are all there. Wrong shapes, NaN and infinity are
/// DataErrors that name file and tensors.
///
///     Pretrained bert = load_pretrained("models/chorus-mini", {.head = Head::kSequenceClassification});
Pretrained load_pretrained(const std::filesystem::path& folder, const LoadOptions& options = {});

/// The log line about fresh, unused and tied tensors, if there is anything to say. A warning when the head that
/// config.json names is not complete.
void log_report(const std::filesystem::path& folder, const Model& model, const LoadReport& report);

/// What a folder says about generating: generation_config.json, where there is one, over config.json.
ModelConfig read_generation_config(const std::filesystem::path& folder);

struct SaveOptions {
  std::int64_t client = 0;            ///< whose values
  at::ScalarType dtype = at::kFloat;  ///< kFloat, kHalf or kBFloat16
  std::size_t max_shard_bytes = std::size_t{5} << 30;
  /// The folder the model came from: its tokenizer and generation_config.json are copied along.
  std::filesystem::path like = {};
};

/// Writes a folder that transformers' from_pretrained loads: config.json, model.safetensors (or shards). Parents are
/// made. Files are replaced in one step each, the weights last.
void save_pretrained(const std::filesystem::path& folder, const Model& model, const Params& params,
                     const SaveOptions& options = {});

/// DataError when a tokenizer of `vocabulary` entries cannot belong to the model: it has ids beyond the embedding, or
/// the embedding has more rows than a vocabulary rounded up to a multiple of 128 would need.
void check_vocabulary(const Model& model, std::int64_t vocabulary, const std::string& tokenizer);

}  // namespace chorus::inline models
