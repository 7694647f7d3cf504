#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/ports/message.h"
#include "core/ports/variant.h"

namespace chorus::inline ports {

/// Smaller versions of what a run trains. The server holds the whole vector [P]. A client that is asked about a variant
/// receives, trains and returns only that part [P_v].
///
///     at::Tensor part = variants.take({.depth = 2, .width = 8}, model);
///     variants.put({.depth = 2, .width = 8}, part, model);       // what is outside the variant stays
///
/// Thread-safe.
class Variants {
 public:
  virtual ~Variants() = default;

  /// Depth and width of the whole. Widths are multiples of `unit`.
  virtual Variant whole() const = 0;
  virtual int unit() const = 0;
  /// Index of each element of the variant in the whole: int64 [P_v]. ConfigError if there is no such variant.
  virtual at::Tensor places(const Variant& variant) const = 0;

  /// The two factors of a low-rank update in the whole: A [rank, in] and B [out, rank].
  struct LowRankPair {
    std::int64_t a = 0, b = 0;  ///< index of their first element
    std::int64_t rank = 0, in = 0, out = 0;
  };
  virtual std::vector<LowRankPair> low_rank_pairs() const { return {}; }

  bool is_whole(const Variant& variant) const;
  /// Returns `whole` itself, without a copy, for the whole.
  at::Tensor take(const Variant& variant, const at::Tensor& whole) const;
  void put(const Variant& variant, const at::Tensor& part, const at::Tensor& whole) const;
};

/// Writes a variant into a request as the numbers "depth" and "width", and reads it back. -1 is not written.
void write_variant(const Variant& variant, Message& body);
Variant read_variant(const Message& body);

}  // namespace chorus::inline ports
