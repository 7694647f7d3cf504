#pragma once

#include <torch/types.h>

#include <cstdint>

#include "application/models/ops/dropout.h"
#include "application/models/ops/packing.h"

namespace chorus::inline ops {

/// Inputs of attention besides the three projections.
struct AttentionSpec {
  std::int64_t heads = 1;
  double scale = 1;      ///< factor of the scores, usually 1/sqrt(head width)
  bool causal = false;   ///< a token attends to itself and earlier tokens
  double dropout = 0;    ///< probability, on the weights
  at::Tensor bias = {};  ///< added to the scores: [N or 1, heads, Lq, Lk], or undefined (T5's relative positions)
  /// Keys and values before every sequence, to which every token attends: [C, p, H] or [p, H], or undefined. The bias
  /// does not cover them.
  at::Tensor prefix_keys = {}, prefix_values = {};

  std::int64_t prefix_length() const { return prefix_keys.defined() ? prefix_keys.size(-2) : 0; }
};

/// softmax(scale * Q K^T + bias) V within each sequence. q is [C, Tq, H] packed as `queries`, k and v are [C, Tk, H]
/// packed as `keys`; sequence n of `queries` attends to sequence n of `keys`. Returns [C, Tq, H]. The only operator
/// that knows where a sequence ends.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packing& queries,
                     const Packing& keys, const AttentionSpec& spec, Dropout& dropout);

/// The same for queries, keys and values from one matmul, [C, T, 3 H].
at::Tensor self_attention(const at::Tensor& qkv, const Packing& packing, const AttentionSpec& spec, Dropout& dropout);

/// A decoder's key-value cache: [N, L, heads, width] each, and which are valid. Grows by one token per step.
struct KeyValueCache {
  at::Tensor keys, values;
  at::Tensor attendable;  ///< [N, L] bool

  /// From packed projections [1, T, H] of a prompt.
  static KeyValueCache of(const at::Tensor& k, const at::Tensor& v, const Packing& packing, const AttentionSpec& spec);
  /// An empty cache for `sequences` sequences, with the prefix if there is one.
  static KeyValueCache empty(std::int64_t sequences, const at::Tensor& like, const AttentionSpec& spec);
  /// Appends one token per sequence: k, v are [1, N, H].
  void append(const at::Tensor& k, const at::Tensor& v);
  /// Sequence i continues sequence rows[i].
  void reorder(const at::Tensor& rows);
};

/// One query per sequence, q [1, N, H], against a cache. No dropout: decoding is evaluation. `spec.causal` is ignored.
/// Returns [1, N, H].
at::Tensor attend_to_cache(const at::Tensor& q, const KeyValueCache& cache, const AttentionSpec& spec);

}  // namespace chorus::inline ops
