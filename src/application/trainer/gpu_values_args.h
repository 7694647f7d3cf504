#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline trainer {

/// Rows of a word table that clients leave out (WordPlaces in gpu_values.h): the table in the whole vector, and the
/// rows [C, used] of each client, which come after its other elements.
struct TableArgs {
  i64 begin, size, width;
  const i64* rows;
  i64 used;
};

/// values [C, count] = `start`, and `shadow`, if not null, their bfloat16 shadow copy. A thread writes them for
/// `clients` clients with the same start.
struct BeginValuesArgs {
  float* values;
  u16* shadow;
  const float* start;
  i64 values_stride, shadow_stride, start_stride;
  TableArgs table;
  i64 count;
  i32 clients;
};

/// out [C, count] = values - start; 0 in rows that a client left out.
struct ChangesArgs {
  float* out;
  const float *values, *start;
  i64 out_stride, values_stride, start_stride;
  TableArgs table;
  const i64* names;  ///< [C, vocabulary] index of a table row among the client's rows; any index if absent
  i64 vocabulary;
  i64 count;
  i32* faulty;  ///< [C] becomes 1 if a result is not finite
  i32 clients;
};

}  // namespace chorus::inline trainer
