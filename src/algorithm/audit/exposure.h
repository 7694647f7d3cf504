#pragma once

#include <cstddef>
#include <span>

namespace chorus::inline audit {

/// How well a model knows a secret that was planted in its training data (a canary), measured against references: texts
/// made in the same way that were in nobody's data (Carlini et al. 2019, section 4).
///
///     exposure = log2(references + 1) - log2(rank)
///
/// rank 1: the model finds no reference as likely as the canary. A model that has learnt nothing about the canary ranks
/// it anywhere, with an expected exposure of 1.44 bits. No more than log2(references + 1) can be measured.
struct Exposure {
  std::size_t rank = 1;
  double bits = 0;
};

/// `loss` of the canary, and those of the references; references with the same loss come first.
Exposure exposure(double loss, std::span<const double> references);

}  // namespace chorus::inline audit
