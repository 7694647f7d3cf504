#pragma once

#include "application/models/ops/dropout_args.h"

namespace chorus::inline ops {

/// The sequences of padded attention scores [N, heads, queries, width]. The arrays are [N].
struct SoftmaxShape {
  const i64 *client_of, *sequence_of, *queries_of, *keys_of;
  u32 heads, queries, width;
  u32 rows;  ///< N * heads * queries
  u32 causal;
  float scale;
};

/// weights = softmax(scale * scores) over the keys a query attends to, 0 beyond them; masked = weights * mask, written
/// only if something is dropped.
struct SoftmaxArgs {
  const void* scores;
  void *weights, *masked;
  SoftmaxShape shape;
  MaskArgs mask;
};

/// The gradient of the scores from that of `masked`.
struct SoftmaxGradientArgs {
  const void *dmasked, *weights;
  void* dscores;
  SoftmaxShape shape;
  MaskArgs mask;
};

}  // namespace chorus::inline ops
