#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tensor/storage_plan.h"

namespace chorus::inline tensor {

/// How a parameter that no checkpoint provides is filled.
struct Init {
  enum class Kind { kZeros, kOnes, kNormal, kUniform };
  Kind kind = Kind::kZeros;
  double scale = 0;  ///< standard deviation of kNormal; half-width of kUniform

  static Init zeros() { return {}; }
  static Init ones() { return {Kind::kOnes, 0}; }
  static Init normal(double deviation) { return {Kind::kNormal, deviation}; }
  static Init uniform(double half_width) { return {Kind::kUniform, half_width}; }
};

/// A parameter of a Layout: its index in the list. Cheap to copy; -1 means "this model has no such parameter".
struct ParamId {
  int index = -1;
  bool exists() const { return index >= 0; }
};

/// The part of a network that a parameter belongs to: embeddings, a numbered layer (0 is nearest the input), or head.
inline constexpr int kEmbeddingLayer = -1;
inline constexpr int kHeadLayer = std::numeric_limits<int>::max();

struct ParamSpec {
  std::string name;  ///< Hugging Face's name
  std::vector<std::int64_t> shape;
  Init init;
  int layer = kEmbeddingLayer;
  bool trainable = true;
  bool buffer = false;      ///< saved with the model, never trained (BART's final_logits_bias)
  bool attached = false;    ///< not in the plain checkpoint: an adapter, a low-rank factor, a prefix
  std::int64_t count = 0;   ///< product of the shape
  std::int64_t offset = 0;  ///< index in the flat trainable (or frozen) vector; see Layout::place()
};

/// The parameter list of a model: names, shapes, and which of them train. A model adds its parameters once, in its
/// constructor, and remembers their ids; `freeze` then decides what trains; Params gives them memory.
///
///     Layout layout;
///     ParamId weight = layout.add("classifier.weight", {labels, hidden}, Init::normal(0.02));
///     layout.freeze([](const ParamSpec& p) { return p.layer < 4; });
///
/// All trainable parameters are in one flat vector of `trainable_size()` elements, all others in one of
/// `frozen_size()`, without gaps. A StoragePlan decides the order.
class Layout {
 public:
  ParamId add(std::string name, std::vector<std::int64_t> shape, Init init);
  /// A tensor that is saved and loaded but never trained.
  ParamId add_buffer(std::string name, std::vector<std::int64_t> shape, Init init);
  /// A parameter that a plain checkpoint of the model does not have (application/peft).
  ParamId attach(std::string name, std::vector<std::int64_t> shape, Init init);
  /// Parameters added from now on belong to this layer.
  void begin_layer(int layer) { current_layer_ = layer; }
  /// Another name under which checkpoints may hold the same tensor (tied weights). Accepted on load, never written.
  void alias(std::string name, ParamId id);

  /// Hints for the StoragePlan: the parameter is the weight of a matmul; it is the table of a language model's head,
  /// whether or not it is also an embedding; `first` and the count - 1 parameters after it may be used as one.
  void mark_matmul_weight(ParamId id);
  void mark_head_table(ParamId id) { StoragePlan::mark(storage_.head_tables, id.index); }
  void join(ParamId first, int count);
  const StoragePlan& storage() const { return storage_; }

  /// Freezes exactly the parameters for which `is_frozen` is true; all others except buffers become trainable.
  void freeze(const std::function<bool(const ParamSpec&)>& is_frozen);

  /// The same layout, but table `id` has `rows` rows and comes last.
  Layout with_rows(ParamId id, std::int64_t rows) const;

  const ParamSpec& operator[](ParamId id) const { return specs_.at(static_cast<std::size_t>(id.index)); }
  const std::vector<ParamSpec>& specs() const { return specs_; }
  /// By name or alias.
  std::optional<ParamId> find(std::string_view name) const;
  bool is_alias(std::string_view name) const { return aliases_.contains(std::string(name)); }

  /// Elements of matmul weights, which come first in the trainable vector.
  std::int64_t matmul_size() const { return matmul_size_; }
  std::int64_t trainable_size() const { return trainable_size_; }
  std::int64_t frozen_size() const { return frozen_size_; }
  /// Hash of names, shapes and offsets of trainable parameters, which both ends of a federation must share. Never 0.
  std::uint64_t fingerprint() const;
  /// Number of elements in a checkpoint.
  std::int64_t size() const { return trainable_size_ + frozen_size_; }

 private:
  ParamId append(ParamSpec spec);
  void place();

  std::vector<ParamSpec> specs_;
  StoragePlan storage_;
  std::unordered_map<std::string, int> index_;
  std::unordered_map<std::string, int> aliases_;
  std::int64_t trainable_size_ = 0, matmul_size_ = 0;
  std::int64_t frozen_size_ = 0;
  int current_layer_ = kEmbeddingLayer;
};

}  // namespace chorus::inline tensor
