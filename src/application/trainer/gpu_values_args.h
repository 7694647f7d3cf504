#pragma once

#include "core/device/kernel_types.h"

namespace chorus::inline trainer {

/// Rows of a word table that clients leave out (WordPlaces in gpu_values.h): the table in the whole vector, and the
/// rows [C, used] that each client has, behind its other elements.
struct TableArgs {
  i64 begin, size, width;
  const i64* rows;
  i64 used;
};

/// values [C, count] become those of `start`, and `shadow` their bfloat16 shadow copy, or null. A thread writes them
/// for `clients` clients that have the same start.
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
  const i64* names;  ///< [C, vocabulary] where a row of the table is among a client's, or any of its places
  i64 vocabulary;
  i64 count;
  i32* faulty;  ///< [C] becomes 1 where a result is not finite
  i32 clients;
};

}  // namespace chorus::inline trainer
