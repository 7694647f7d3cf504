#pragma once

#include <torch/types.h>

#include "core/tensor/layout.h"

namespace chorus::inline tensor {

/// Uninitialized rows [C, P] of float32 or bfloat16. Each client's row starts at a multiple of 64 bytes, whatever P is.
at::Tensor aligned_rows(std::int64_t clients, std::int64_t size, at::Device device, at::ScalarType type = at::kFloat);

/// A parameter as a view of its flat memory: [C, shape...] of rows [C, P], or [shape...] of a vector [F].
at::Tensor view_of(const at::Tensor& flat, const ParamSpec& spec);

}  // namespace chorus::inline tensor
