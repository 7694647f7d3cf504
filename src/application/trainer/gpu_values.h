#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace chorus::inline trainer {

/// Copies the server's vector to a cohort's values and back on a GPU, in one pass each. Rows of a word table may be
/// left out (used_words.h): a client's elements are then those before the table, those after it, and its rows of the
/// table.
struct WordPlaces {
  std::int64_t begin = 0, size = 0, width = 1;  ///< the table in the whole vector; size 0: nothing is left out
  at::Tensor rows = {};                         ///< [C, U] table row of each of a client's rows
  at::Tensor names = {};  ///< [C, V] index of a table row among the client's rows; any index if absent
};

/// values [C, Pu] = `start`, [P] for all or [C, P]; `shadow`, if defined, becomes their bfloat16 shadow copy.
void gpu_begin_values(const at::Tensor& values, const at::Tensor& shadow, const at::Tensor& start,
                      const WordPlaces& words);

/// values [C, Pu] - start: [C, P], 0 in rows that were left out.
struct Changes {
  at::Tensor numbers;
  at::Tensor faulty;  ///< [C] nonzero if an element is not finite
};
Changes gpu_changes(const at::Tensor& values, const at::Tensor& start, const WordPlaces& words);

}  // namespace chorus::inline trainer
