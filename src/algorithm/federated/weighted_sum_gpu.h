#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "core/tensor/flat_math.h"

namespace chorus::inline federated {

/// flat_math.h's weighted_sum on a GPU: out = the sum of up to kMostTerms weighted terms, plus `sum` where it is
/// defined (which may be `out`).
void weighted_sum_gpu(const at::Tensor& out, std::span<const Term> terms, const at::Tensor& sum);

}  // namespace chorus::inline federated
