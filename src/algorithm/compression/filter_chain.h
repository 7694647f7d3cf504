#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ports/filter.h"

namespace chorus::inline compression {

using FilterList = std::vector<Choice<Filters>>;

/// What is wrong with the order of a list of filters, or "": see Filter::Stage.
std::string order_mistake(const FilterList& filters);
/// The same for a list of filters for whole models, which servers send. A reducing filter must not have error feedback
/// there: what it leaves out would pile up round by round, and clients would receive it many times too large.
std::string down_mistake(const FilterList& filters);

/// The filters that tensors other than predictions pass through (Filter::answer_size).
FilterList without_answers(const FilterList& filters);

/// An encoded vector.
struct Packed {
  Filter::Bytes bytes;
  double norm2 = 0;   ///< |x|^2 of the input
  double error2 = 0;  ///< |x - decoded|^2
};

/// A decoded vector.
struct Unpacked {
  Numbers values;
  std::vector<std::int64_t> shape;
  bool relative = false;         ///< relative to a reference that both sides know
  double norm2 = 0, error2 = 0;  ///< as reported by the sender
};

/// A list of filters as one: vectors to the bytes that travel, and back. Immutable and thread-safe.
///
///     const FilterChain chain(config.up);
///     const Packed packed = chain.encode(update, {.shape = {n}, .context = context});
///     const Unpacked back = chain.decode(packed.bytes, n);
///
/// Error feedback is one memory for the whole list (core/ports/filter.h), under place + "error": the loss of
/// sparsification and of rounding together. docs/reference/formats.md, "Packed tensors", describes the bytes.
class FilterChain {
 public:
  /// ConfigError for a list with an order_mistake.
  explicit FilterChain(const FilterList& filters);

  bool empty() const { return filters_.empty(); }
  bool lossless() const;
  /// Whether senders keep state between rounds.
  bool remembers() const;
  const std::string& names() const { return names_; }  ///< "top_k+uniform+zstd"

  struct Input {
    std::vector<std::int64_t> shape = {};
    bool relative = false;
    FilterContext context = {};
  };
  /// Whether the list has a filter of stage kTransform.
  bool transforms() const { return first_ > 0; }
  /// The values after the filters of stage kTransform. DataError when one is not finite.
  Numbers transform(std::span<const float> values, const FilterContext& context) const;

  /// DataError when a value is not finite. On an error the memory is unchanged.
  Packed encode(std::span<const float> values, const Input& input) const;
  /// DataError for bytes that this chain does not produce, or for more than `most` values. `context` has the sender's
  /// key.
  Unpacked decode(std::span<const std::byte> bytes, std::size_t most, const FilterContext& context = {}) const;

 private:
  Numbers restore(std::size_t stage, std::span<const std::byte> bytes, std::size_t size) const;

  FilterContext at_filter(const FilterContext& context, std::size_t index) const;

  std::vector<std::unique_ptr<Filter>> filters_;
  std::size_t first_ = 0;  // the first filter whose stage is not kTransform
  std::string names_;
  std::optional<ErrorFeedback> feedback_;
};

}  // namespace chorus::inline compression
