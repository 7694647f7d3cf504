#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace chorus {

/// A GPU's way from the server's vector to a cohort's values and back, one pass over memory each. Some rows of a word
/// table may be left out (used_words.h): a client's numbers then are those before the table, those after it, and the
/// rows it has.
struct WordPlaces {
  std::int64_t begin = 0, size = 0, width = 1;  ///< of the table in the whole vector; size 0: nothing is left out
  at::Tensor rows = {};                         ///< [C, U] which row is at a place
  at::Tensor names = {};                        ///< [C, V] the place of a row, or any place of another one
};

/// values [C, Pu] become those of `start`, [P] for all or [C, P]; `halves`, where defined, their bfloat16 copies.
void gpu_begin_values(const at::Tensor& values, const at::Tensor& halves, const at::Tensor& start,
                      const WordPlaces& words);

/// How the values [C, Pu] differ from the start: [C, P], 0 where a row was left out.
struct Changes {
  at::Tensor numbers;
  at::Tensor faulty;  ///< [C] not 0 where some number is not finite
};
Changes gpu_changes(const at::Tensor& values, const at::Tensor& start, const WordPlaces& words);

}  // namespace chorus
