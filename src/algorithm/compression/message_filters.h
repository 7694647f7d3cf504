#pragma once

#include <functional>

#include "algorithm/compression/filter_chain.h"
#include "core/ports/message.h"
#include "core/ports/variants.h"

namespace chorus {

/// What filters came to, over some tensors.
struct FilterTotals {
  double raw = 0;     ///< bytes as float32
  double packed = 0;  ///< bytes that travel
  double norm2 = 0, error2 = 0;

  double ratio() const;  ///< raw / packed; 1 when nothing was filtered
  double error() const;  ///< |x - decoded| / |x|, all tensors as one; 0 when nothing was filtered
};

/// One direction's filters and all that both sides know of it.
struct MessageFiltersInput {
  FilterList filters = {};
  std::string_view purpose = "filters/up";  ///< of the random draws: one a direction
  std::uint64_t seed = 0;
  /// The layout of a flat vector of so many numbers; empty: it has none.
  std::function<std::vector<FilterBlock>(std::int64_t numbers)> blocks = {};
  /// What both sides have before the first round: where filters lose something, the tensor "model" travels as its
  /// difference from this, or from its part of the message's variant. May be undefined.
  at::Tensor reference = {};
  const Variants* variants = nullptr;  ///< borrowed; null: there is only the whole
};

/// Whose message it is, and when: what random draws and memories are filed under.
struct MessageMoment {
  std::string_view procedure = {};
  Variant variant = {};
  std::uint64_t round = 0;
  std::uint64_t client = 0;       ///< 0 for the server
  std::uint64_t ask = 0;          ///< how often the round had asked before
  ClientState* memory = nullptr;  ///< where the sender keeps things, under memory_place
};

/// Where a sender keeps what belongs to answers or requests of a procedure: "filters/train/", or "filters/train@2x8/"
/// when the request is about a variant of depth 2 and width 8.
std::string memory_place(std::string_view procedure, const Variant& variant);

/// Packs the tensors of messages, and unpacks them. A float32 tensor of kLeastFiltered numbers or more leaves as bytes
/// under its name + ".packed"; everything else travels as it is. Thread-safe.
class MessageFilters {
 public:
  static constexpr std::int64_t kLeastFiltered = 1024;

  explicit MessageFilters(const MessageFiltersInput& input) : input_(input), chain_(input.filters) {}

  const FilterChain& chain() const { return chain_; }
  /// DataError when a number is not finite.
  FilterTotals pack(Message& message, const MessageMoment& moment) const;
  /// Tensors come to the given device. DataError for bytes that cannot be read, or of more than `most` numbers.
  FilterTotals unpack(Message& message, std::size_t most, at::Device device) const;

 private:
  at::Tensor reference_of(const Message& message, const std::string& name) const;

  MessageFiltersInput input_;
  FilterChain chain_;
};

}  // namespace chorus
