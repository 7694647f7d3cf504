#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/large_vector.h"
#include "core/base/rng.h"
#include "core/config/registry.h"
#include "core/ports/workbench.h"

namespace chorus::inline ports {

/// A vector on its way through filters.
using Numbers = LargeVector<float>;

/// A parameter's range in a flat vector, for filters that work on matrices.
struct FilterBlock {
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
};

/// What a sender's filter may use besides the values.
struct FilterContext {
  StreamKey key = {};                        ///< of every random draw; each filter has its own `step`
  std::span<const FilterBlock> blocks = {};  ///< the blocks that make up the values, without gaps; empty: one vector
  ClientState* memory = nullptr;             ///< kept between rounds by the client or the server; may be null
  std::string place = {};                    ///< prefix of the filter's names in `memory`
};

/// Error feedback: the lost part is remembered and added to the next message,
///     v = x + compensation e,   sent = decode(encode(v)),   e' = decay e + x - sent
/// (with both 1, e' = v - sent: Seide et al. 2014, Karimireddy et al. 2019; else Wu et al. 2018).
struct ErrorFeedback {
  double compensation = 1;
  double decay = 1;
};

/// One step between a vector and the bytes that travel. A list of filters (algorithm/compression/filter_chain.h) runs
/// these stages in order; the receiver undoes them in reverse:
///
///   kTransform  as many values, changed for good: clipping, noise. The receiver sees the changed values
///   kReduce     fewer values, which go to the next filter, and bytes that restore the others
///   kPack       all values into bytes; at most one. Without it they travel as float32
///   kMask       bytes that only a holder of the key can read; at most one
///   kEntropy    fewer bytes; at most one
///
/// A filter is immutable and thread-safe. What it remembers is in the context's memory; a tensor there with the wrong
/// size is discarded. Random draws come only from the context's key. All bytes are little-endian. Decoding checks
/// everything, because bytes may come from a peer: DataError, one sentence.
class Filter {
 public:
  static constexpr std::string_view kKind = "filter";
  enum class Stage { kTransform, kReduce, kPack, kMask, kEntropy };
  using Bytes = LargeVector<std::byte>;

  virtual ~Filter() = default;
  virtual Stage stage() const = 0;

  /// For kTransform. Applied to every float32 tensor, however short.
  virtual Numbers transform(std::span<const float>, const FilterContext&) const { wrong_stage(); }

  /// For kReduce and kPack: appends its bytes and returns the values for the next filter (kPack: none).
  virtual Numbers encode(std::span<const float>, Bytes&, const FilterContext&) const { wrong_stage(); }
  /// For kReduce: the number of values it passed on, out of `size`, according to its bytes.
  virtual std::size_t left(std::span<const std::byte>, std::size_t) const { wrong_stage(); }
  /// The `size` values, exactly or approximately, from its bytes and the output of the next filter's decode.
  virtual Numbers decode(std::span<const std::byte>, Numbers, std::size_t) const { wrong_stage(); }

  /// For kMask, in place. The receiver's context has the same key but no memory.
  virtual void mask(std::span<std::byte>, const FilterContext&) const { wrong_stage(); }
  virtual void unmask(std::span<std::byte>, const FilterContext&) const { wrong_stage(); }

  /// For kEntropy.
  virtual Bytes squeeze(std::span<const std::byte>) const { wrong_stage(); }
  /// DataError if the result is longer than `most` bytes.
  virtual Bytes unsqueeze(std::span<const std::byte>, std::size_t /*most*/) const { wrong_stage(); }

  /// Error feedback for the whole list of filters, if this filter asks for it.
  virtual std::optional<ErrorFeedback> feedback() const { return std::nullopt; }
  /// Whether it remembers anything between rounds.
  virtual bool remembers() const { return false; }
  /// For a filter that only predictions pass through: the logits of each. 0: any tensor passes.
  virtual std::int64_t answer_size() const { return 0; }
  /// Reads FilterContext::blocks, so it must come first.
  virtual bool needs_blocks() const { return false; }

 private:
  [[noreturn]] static void wrong_stage() { throw InternalError("a filter is asked for what another stage does"); }
};

using Filters = Registry<Filter>;

}  // namespace chorus::inline ports
