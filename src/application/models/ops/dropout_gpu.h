#pragma once

#include "application/models/ops/dropout.h"

namespace chorus::inline ops {

/// Dropout masks on a GPU, bit-identical to those of row_kernels.h. For tensors that `gpu_rows_fit`.

/// x [C, rows, width] * mask.
at::Tensor mask_hidden_gpu(const at::Tensor& x, const Dropout::Site& site);
/// x [N, heads, queries, keys] * mask; client_of and sequence_of are [N] int64.
at::Tensor mask_weights_gpu(const at::Tensor& x, const Dropout::Site& site, const at::Tensor& client_of,
                            const at::Tensor& sequence_of);

}  // namespace chorus::inline ops
