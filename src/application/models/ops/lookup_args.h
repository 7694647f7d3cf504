#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline ops {

/// Tokens per block of the kernels that add gradients of looked-up rows.
inline constexpr u32 kLookupChunk = 32;

/// tables [C, V, width] += dy [C, tokens, width] at the rows ids [C, tokens], except row `padding`. Uses atomic
/// additions: the order, and so the last bits, differ between runs.
struct LookupGradientArgs {
  const void* dy;
  const i64* ids;
  float* tables;
  i64 stride;  ///< between clients' tables
  i64 padding;
  u32 tokens, width;
};

/// order [C, tokens]: the tokens of each client sorted by their ids, ties by position.
struct SortTokensArgs {
  const i64* ids;
  i32* order;
  u32 tokens;
};

/// The same sums in a fixed order. Chunks of kLookupChunk sorted tokens are summed by id. An id that crosses a chunk's
/// border leaves a partial sum in `parts` [C, chunks, 2, width]: one continued from the previous chunk, and one that
/// continues in the next.
struct SortedLookupArgs {
  const void* dy;
  const i64* ids;
  const i32* order;
  float* tables;
  float* parts;
  i64 stride, padding;
  u32 tokens, width;
};

}  // namespace chorus::inline ops
