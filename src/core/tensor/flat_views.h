#pragma once

#include <torch/types.h>

#include "core/tensor/layout.h"

namespace chorus::inline tensor {

/// Rows [C, P] of floats or bfloat16 whose clients start at multiples of 64 bytes, whatever P is. Not set yet.
at::Tensor aligned_rows(std::int64_t clients, std::int64_t size, at::Device device, at::ScalarType type = at::kFloat);

/// The view of a parameter in the flat memory it lies in: [C, shape...] of rows [C, P], [shape...] of a vector [F].
at::Tensor view_of(const at::Tensor& flat, const ParamSpec& spec);

}  // namespace chorus::inline tensor
