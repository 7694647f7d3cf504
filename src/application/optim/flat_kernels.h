#pragma once

#include <cstdint>

namespace chorus::inline optim {

/// Optimizer steps on plain memory, one pass each: LibTorch's operators would make seven passes, and a step is bound by
/// memory. Compiled for several instruction sets; the best one is chosen at run time.

/// One client's vectors.
struct AdamWRow {
  float* values;
  const float* before;  ///< values to step from; may be `values`
  const float* gradients;
  float* first;  ///< moments
  float* second;
  const float* decay;  ///< 1 where weight decay applies, else 0; null: everywhere
};

/// Constants of a step.
struct AdamWStep {
  double beta1, beta2, epsilon;
  double size;    ///< learning rate, corrected for the first moment's bias
  double root;    ///< bias correction of the second moment's root
  double shrink;  ///< learning rate times weight decay
  double scale;   ///< of the gradients
};

/// Elements [begin, end) of a row; see adamw.h for the equations.
void adamw_step(const AdamWRow& row, std::int64_t begin, std::int64_t end, const AdamWStep& step);

/// values = before - rate * gradients; `before` may be the values.
void sgd_step(float* values, const float* before, const float* gradients, double rate, std::int64_t count);

/// For at most a few ten thousand elements: partial sums are floats.
double sum_of_squares(const float* numbers, std::int64_t count);

}  // namespace chorus::inline optim
