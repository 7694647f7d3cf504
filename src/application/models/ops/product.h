#pragma once

#include <torch/types.h>

#include "core/tensor/params.h"

namespace chorus::inline ops {

/// x W^T + b for each client: x [C, T, in], W [C, out, in] or, if frozen, [out, in]; b [C, out] or [out].
struct Affine {
  ParamId weight;
  ParamId bias = {};        ///< may not exist
  bool transposed = false;  ///< W is stored as [in, out]
};

/// With a bfloat16 shadow copy, the matmul is in bfloat16 and accumulates in float32; the result is bfloat16 on a GPU
/// and float32 on a CPU. The gradients of weight and bias go directly into Params::grads().
at::Tensor product(const Params& params, const Affine& of, const at::Tensor& x);

/// One matmul for several joined weights (Layout::join), named by the first weight and bias: [C, T, count * out].
/// Undefined if they are not adjacent, or under SecondOrder, where each weight is a leaf of its own.
at::Tensor joined_product(const Params& params, const Affine& first, const at::Tensor& x);

/// gelu(x W^T + b); bias and GELU are one pass.
at::Tensor gelu_product(const Params& params, const Affine& of, const at::Tensor& x, bool by_tanh);

}  // namespace chorus::inline ops
