#pragma once

#include <functional>

#include "algorithm/compression/filter_chain.h"
#include "core/ports/gate.h"
#include "core/ports/message.h"
#include "core/ports/variants.h"

namespace chorus::inline compression {

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
  bool one_variant = false;            ///< a sender's memory of other variants is forgotten (clients)
};

/// Where a sender keeps what belongs to answers or requests of a procedure: "filters/train/", or "filters/train@2x8/"
/// when the request is about a variant of depth 2 and width 8.
std::string memory_place(std::string_view procedure, const Variant& variant);

/// Packs the tensors of messages, and unpacks them. A float32 tensor of kLeastFiltered elements or more (predictions of
/// federated distillation: kLeastPredictions, since some methods send them batch by batch) leaves as bytes under its
/// name + ".packed"; shorter ones are transformed only (Filter::Stage), everything else travels as it is. Filters for
/// predictions (Filter::answer_size) leave other tensors alone. Thread-safe.
class MessageFilters {
 public:
  static constexpr std::int64_t kLeastFiltered = 1024, kLeastPredictions = 32;
  /// Whether a tensor of this name holds predictions of the public set: of a client, of the server, or their mean.
  static bool is_predictions(std::string_view name) {
    return name == "predictions" || name == "answers" || name == "ensemble";
  }
  static std::int64_t least_filtered(std::string_view name) {
    return is_predictions(name) ? kLeastPredictions : kLeastFiltered;
  }

  explicit MessageFilters(const MessageFiltersInput& input)
      : input_(input), chain_(input.filters), others_(without_answers(input.filters)) {}

  /// All filters, through which predictions pass.
  const FilterChain& chain() const { return chain_; }
  /// DataError when a value is not finite.
  GateTotals pack(Message& message, const GateMoment& moment) const;

  struct Arrival {
    std::size_t most = 0;          ///< elements of a tensor
    at::Device device = at::kCPU;  ///< where tensors go
  };
  /// DataError for bytes that cannot be read, or of more than `most` elements.
  GateTotals unpack(Message& message, const GateMoment& moment, const Arrival& arrival) const;

 private:
  const FilterChain& chain_of(std::string_view name) const { return is_predictions(name) ? chain_ : others_; }
  at::Tensor reference_of(const Message& message, const std::string& name) const;
  StreamKey key_of(const GateMoment& moment, const std::string& name) const;

  MessageFiltersInput input_;
  FilterChain chain_, others_;
};

}  // namespace chorus::inline compression
