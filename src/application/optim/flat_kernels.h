#pragma once

#include <cstdint>

namespace chorus::inline optim {

/// Optimizer steps on plain memory, one pass each: LibTorch's operators go over the same numbers seven times, and
/// memory is what a step costs. Compiled for several instruction sets, the best of which is taken at run time.

/// One client's vectors.
struct AdamWRow {
  float* values;
  const float* before;  ///< the step; may be the values
  const float* gradients;
  float* first;  ///< moments
  float* second;
  const float* decay;  ///< 1 where weight decay applies, 0 where not; null: everywhere
};

/// What is the same for all numbers of a step.
struct AdamWStep {
  double beta1, beta2, epsilon;
  double size;    ///< learning rate, corrected for the first moment's bias
  double root;    ///< correction of the root of the second moment
  double shrink;  ///< learning rate times weight decay
  double scale;   ///< of the gradients
};

/// The numbers [begin, end) of a row; see adamw.h for the equations.
void adamw_step(const AdamWRow& row, std::int64_t begin, std::int64_t end, const AdamWStep& step);

/// values = before - rate * gradients; `before` may be the values.
void sgd_step(float* values, const float* before, const float* gradients, double rate, std::int64_t count);

/// Of at most a few ten thousand numbers: the partial sums are floats.
double sum_of_squares(const float* numbers, std::int64_t count);

}  // namespace chorus::inline optim
