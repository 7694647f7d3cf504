#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "application/models/head.h"

namespace chorus::inline models {

/// A Hugging Face config.json: typed, checked access to its values. All other keys are kept and written back. Each
/// getter throws DataError naming file, key, value and what is allowed.
class ModelConfig {
 public:
  static ModelConfig read(const std::filesystem::path& file);
  /// `origin` names the text in errors.
  static ModelConfig parse(const std::string& text, const std::string& origin);

  /// From the file, or, if an old file lacks it, from keys that only one family has; then also written back.
  const std::string& model_type() const { return model_type_; }
  /// The first class name of "architectures", or empty.
  std::string architecture() const;
  /// From "architectures"; nullopt if it names none, or one that Chorus does not have.
  std::optional<Head> head() const;

  static constexpr std::int64_t kLargest = 1 << 24;  ///< of any size, so that products of two can be computed
  static constexpr std::int64_t kMostLayers = 512, kMostLabels = 1 << 20;

  /// A size: at least 1 and at most 2^24 unless stated otherwise. Without a fallback, the key is required.
  std::int64_t integer(const std::string& key, std::optional<std::int64_t> fallback = {}, std::int64_t minimum = 1,
                       std::int64_t maximum = kLargest) const;
  /// A number of layers.
  std::int64_t layers(const std::string& key, std::int64_t fallback, std::int64_t minimum = 0) const {
    return integer(key, fallback, minimum, kMostLayers);
  }
  double number(const std::string& key, double fallback) const;
  /// A dropout probability in [0, 1).
  double probability(const std::string& key, double fallback) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  /// A token id, or nullopt if the key is missing or null. A list gives its first element.
  std::optional<std::int64_t> token(const std::string& key) const;
  bool has(const std::string& key) const;

  /// Label names by id; LABEL_i if the file has none.
  std::vector<std::string> labels() const;
  /// Replaces id2label and label2id.
  void set_labels(const std::vector<std::string>& labels);
  void set_text(const std::string& key, const std::string& value);
  /// Copies the keys of `other` that this one lacks (generation_config.json over config.json).
  void inherit(const ModelConfig& other);
  /// Sets "architectures" to this class name (ModelFamily::class_name).
  void set_architecture(const std::string& class_name);

  /// Adds every key that is read from now on, from this object or its copies, to `keys`, which must outlive them.
  void record_keys(std::set<std::string>& keys) { asked_ = &keys; }
  /// All keys of the file.
  std::vector<std::string> keys() const;

  std::string dump() const;
  const std::string& origin() const { return origin_; }

 private:
  std::shared_ptr<const nlohmann::json> json_;
  std::string origin_;
  std::string model_type_;
  std::set<std::string>* asked_ = nullptr;
};

/// "LABEL_0", "LABEL_1", ...: Hugging Face's default label names.
std::vector<std::string> numbered_labels(std::int64_t count);

}  // namespace chorus::inline models
